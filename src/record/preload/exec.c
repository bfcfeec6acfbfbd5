/* exec.c - hands the library on to the program that is executed, whatever its environment: when the
 * recorded process becomes another program, and in children if these are recorded.
 *
 * May run between vfork and exec, on the parent's memory: what is built lies on the stack.
 */
#include "record/preload/preload.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* An environment of more variables is left as it is. */
#define ENTRIES 2000

extern char **environ;

/* The environment with what children need. Lies in the caller's frame. */
struct passed {
    char preload[2048];
    char *entry[ENTRIES + 3];
};

/* `itself`: this process becomes what is executed, unless it is the child of a vfork. */
static bool follows_exec(bool itself)
{
    if (hx_process.stage != HX_STAGE_RECORDS)
        return false;
    return hx_process.flags & HX_RUN_CHILDREN ||
           (itself && !hx_process.barred && (int)HX_SYS(SYS_getpid, 0, 0, 0, 0) == hx_process.pid);
}

static const char *exec_env_value(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=' ? entry + n + 1 : NULL;
}

/* "LD_PRELOAD=" and this library, before what else was there. False: too long. */
static bool join_preload(char *text, size_t size, const char *others)
{
    const char *self = hx_process.library, *name = "LD_PRELOAD=";
    size_t len = strlen(self), prefix = strlen(name);
    if (others && strstr(others, self))
        return false; /* is there already */
    if (prefix + len + (others ? strlen(others) : 0) + 2 > size)
        return false;
    memcpy(text, name, prefix);
    memcpy(text + prefix, self, len + 1);
    if (others && *others) {
        text[prefix + len] = ':';
        memcpy(text + prefix + len + 1, others, strlen(others) + 1);
    }
    return true;
}

static char *const *pass_on(char *const *env, struct passed *passed)
{
    size_t n = 0, preload = SIZE_MAX;
    if (!passed)
        return env;
    for (; env && env[n]; n++)
        if (n >= ENTRIES)
            return env;
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (exec_env_value(env[i], HX_RUN_ENV))
            continue;
        if (exec_env_value(env[i], "LD_PRELOAD"))
            preload = to;
        passed->entry[to++] = env[i];
    }
    const char *others =
        preload == SIZE_MAX ? NULL : exec_env_value(passed->entry[preload], "LD_PRELOAD");
    if (join_preload(passed->preload, sizeof passed->preload, others)) {
        if (preload == SIZE_MAX)
            preload = to++;
        passed->entry[preload] = passed->preload;
    }
    passed->entry[to++] = hx_process.run_env;
    passed->entry[to] = NULL;
    return passed->entry;
}

/* On the stack of the caller, and only where it is needed: some stacks are small. */
#define PASS_ON(env, itself)                                                                       \
    pass_on((env), follows_exec(itself) ? __builtin_alloca(sizeof(struct passed)) : NULL)

HX_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
    HX_REAL(execve)
    return real(path, argv, PASS_ON(env, true));
}

HX_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
    HX_REAL(execvpe)
    return real(file, argv, PASS_ON(env, true));
}

HX_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
    HX_REAL(fexecve)
    return real(fd, argv, PASS_ON(env, true));
}

HX_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
    HX_REAL(execveat)
    return real(dir, path, argv, PASS_ON(env, true), flags);
}

HX_EXPORT int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

HX_EXPORT int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

/* The arguments of a call as an array on the stack; there are as many as the caller pushed. */
#define LIST(first)                                                                                \
    va_list args_;                                                                                 \
    size_t n_ = 1;                                                                                 \
    va_start(args_, first);                                                                        \
    while (va_arg(args_, char *))                                                                  \
        n_++;                                                                                      \
    va_end(args_);                                                                                 \
    char **argv = __builtin_alloca((n_ + 1) * sizeof *argv);                                       \
    argv[0] = (char *)(uintptr_t)(first);                                                          \
    va_start(args_, first);                                                                        \
    for (size_t i_ = 1; i_ <= n_; i_++)                                                            \
        argv[i_] = va_arg(args_, char *);

HX_EXPORT int execl(const char *path, const char *arg, ...)
{
    LIST(arg)
    va_end(args_);
    return execve(path, argv, environ);
}

HX_EXPORT int execlp(const char *file, const char *arg, ...)
{
    LIST(arg)
    va_end(args_);
    return execvpe(file, argv, environ);
}

HX_EXPORT int execle(const char *path, const char *arg, ...)
{
    LIST(arg)
    char *const *env = va_arg(args_, char *const *);
    va_end(args_);
    return execve(path, argv, env);
}

HX_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                          const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                          char *const env[restrict])
{
    HX_REAL(posix_spawn)
    return real(pid, path, actions, attributes, argv, PASS_ON(env, false));
}

HX_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                           const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                           char *const env[restrict])
{
    HX_REAL(posix_spawnp)
    return real(pid, file, actions, attributes, argv, PASS_ON(env, false));
}
