/* env.c - what heapx asked for: the environment.
 *
 * It is read where the kernel put it, as libc may not have looked yet, and cleaned there: unless
 * children are recorded too, the program sees it as it would be without heapx.
 */
#include "record/preload/preload.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* In the flags of the environment only: who executed us has forbidden system calls. */
#define RUN_BARRED 0x100

/* --- text ----------------------------------------------------------------------------------- */

bool hx_text_add(char *text, size_t size, size_t *len, const char *more)
{
    size_t n = strlen(more);
    if (n >= size - *len)
        return false;
    memcpy(text + *len, more, n + 1);
    *len += n;
    return true;
}

bool hx_number_add(char *text, size_t size, size_t *len, uint64_t value, unsigned base)
{
    char digits[24];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do
        *--at = "0123456789abcdef"[value % base];
    while (value /= base);
    return hx_text_add(text, size, len, at);
}

bool hx_number_off(const char *text, size_t *len, uint64_t *ret)
{
    uint64_t value = 0;
    size_t at = *len;
    while (at > 0 && text[at - 1] != ':')
        at--;
    if (at == 0 || at == *len || *len - at > 16)
        return false;
    for (size_t i = at; i < *len; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *len = at - 1;
    *ret = value;
    return true;
}

/* --- environment ---------------------------------------------------------------------------- */

extern void *__libc_stack_end __attribute__((weak)); /* where the kernel put argc */
extern char **environ;

static char **first_environ(void)
{
    if (&__libc_stack_end && __libc_stack_end) {
        char **argv = (char **)__libc_stack_end + 1;
        int64_t argc = *(int64_t *)__libc_stack_end;
        if (argc >= 0 && argc < 1 << 24 && !argv[argc])
            return argv + argc + 1;
    }
    return environ;
}

static const char *env_entry_value(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=' ? entry + n + 1 : NULL;
}

/* FOLDER:FLAGS:SAMPLE:LEAST:MOST, and :PID of who executes us (hx_env_write). */
static bool parse_env(const char *text)
{
    struct hx_process *process = &hx_process;
    uint64_t field[5]; /* from the last one on */
    size_t len = strlen(text), colons = 0;
    for (size_t i = 0; i < len; i++)
        colons += text[i] == ':';
    uint64_t pid = 0;
    /* a folder has no colon in its name: heapx made it */
    if (colons == 5 && !hx_number_off(text, &len, &pid))
        return false;
    for (int i = 0; i < 4; i++)
        if (!hx_number_off(text, &len, &field[i]))
            return false;
    if (len == 0 || len >= sizeof process->folder)
        return false;
    memcpy(process->folder, text, len);
    process->folder[len] = 0;
    process->most_bytes = field[0];
    process->least_bytes = field[1];
    process->sample_bytes = field[2] > 1ULL << 60 ? 1ULL << 60 : field[2];
    process->flags = (uint32_t)field[3] & ~(uint32_t)RUN_BARRED;
    process->barred = field[3] & RUN_BARRED;
    process->execed_from = (int)pid;
    return true;
}

void hx_env_write(void)
{
    struct hx_process *process = &hx_process;
    size_t len = 0, size = sizeof process->run_env;
    const uint64_t field[] = {process->flags | (process->barred ? RUN_BARRED : 0),
                              process->sample_bytes, process->least_bytes, process->most_bytes,
                              (uint64_t)process->pid};
    hx_text_add(process->run_env, size, &len, HX_RUN_ENV "=");
    hx_text_add(process->run_env, size, &len, process->folder);
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        hx_text_add(process->run_env, size, &len, ":");
        hx_number_add(process->run_env, size, &len, field[i], 16);
    }
}

/* Takes this library out of a list for the loader, in place. True: nothing is left. */
static bool leave_list(char *list)
{
    const char *self = hx_process.library;
    size_t n = strlen(self);
    for (char *at = list; *at;) {
        size_t len = strcspn(at, ": ");
        if (len == n && memcmp(at, self, n) == 0) {
            char *rest = at + len + (at[len] != 0);
            memmove(at, rest, strlen(rest) + 1);
            break;
        }
        at += len + (at[len] != 0);
    }
    return *list == 0;
}

static void find_self(void)
{
    Dl_info info;
    if (dladdr(hx_arena, &info) && info.dli_fname &&
        strlen(info.dli_fname) < sizeof hx_process.library)
        memcpy(hx_process.library, info.dli_fname, strlen(info.dli_fname) + 1);
}

bool hx_env_take(void)
{
    char **env = first_environ();
    const char *run = NULL;
    find_self();
    for (char **at = env; at && *at; at++) {
        const char *value = env_entry_value(*at, HX_RUN_ENV);
        run = value ? value : run;
    }
    if (!run || !parse_env(run))
        return false;
    hx_process.pid = (int)HX_SYS(SYS_getpid, 0, 0, 0, 0);
    char **to = env;
    bool keep = hx_process.flags & HX_RUN_CHILDREN;
    hx_env_write();
    for (char **at = env; *at; at++) {
        if (env_entry_value(*at, HX_RUN_ENV)) {
            if (keep)
                *to++ = hx_process.run_env;
            continue;
        }
        char *list = (char *)env_entry_value(*at, "LD_PRELOAD");
        if (list && !keep && leave_list(list))
            continue;
        *to++ = *at;
    }
    *to = NULL;
    return true;
}
