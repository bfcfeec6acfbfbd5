/* fuzz_core.c - mutated ELF cores, read as heapx reads them: none may crash, hang or be refused
 * without a place.
 *
 * Each case is taken up to the states of its objects. The files of its process are looked for in
 * one case of 32 only, because reading debug information takes most of the time; of seeds that are
 * called malloc-NAME in one of four, as allocators are found by them.
 * test/fuzz/core_seed.py makes seeds: small cores, so that much of what is changed matters.
 */
#include "attach/attach.h"
#include "fuzz.h"
#include "traverse/reach.h"
#include "traverse/scan/scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WHOLE, PARTIAL, REFUSED, NO_CORE };
static const char *const kinds[] = {"whole", "partial", "refused", "no core", NULL};

enum { FILES_IN = 32, FILES_OF_ALLOCATORS_IN = 4 };

static void *begin(void)
{
    return calloc(1, sizeof(unsigned));
}

static hx_error *analyse(hx_attach *attach, struct hx_snapshot *snapshot)
{
    struct hx_program_roots roots = {0};
    struct hx_scan_options scan = {
        .threads = 1, .is_vtable = hx_attach_is_vtable, .context = attach};
    HX_TRY(hx_scan(snapshot, &scan, NULL));
    HX_TRY(hx_attach_types(attach, snapshot, 1, NULL));
    HX_TRY(hx_attach_program_roots(attach, snapshot, NULL, &roots));
    hx_program_roots_deinit(&roots);
    return hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL);
}

static hx_error *take(const char *path, bool files, unsigned *kind)
{
    hx_attach *attach = NULL;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    struct hx_capture_options options = {.threads = 1};
    HX_TRY(hx_attach_open_core(path, NULL, files ? NULL : "/nothing", &attach));
    hx_error *err = hx_attach_capture(attach, &options, NULL, &snapshot);
    if (!err)
        err = analyse(attach, snapshot);
    if (!err)
        *kind = snapshot->complete ? WHOLE : PARTIAL;
    hx_attach_close(attach);
    return err;
}

/* What says that something is missing has to count it. */
static bool judge(hx_error *err, unsigned *kind)
{
    char line[1024];
    if (!err)
        return true;
    bool right =
        err->kind == HX_E_FAIL || (err->kind == HX_E_CORRUPT && strstr(err->why, "at byte"));
    *kind = err->kind == HX_E_FAIL ? NO_CORE : REFUSED;
    hx_error_line(err, line, sizeof line);
    if (!right)
        printf("wrong: %s\n", line);
    hx_error_free(err);
    return right;
}

static bool write_all(int fd, const uint8_t *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t part = write(fd, bytes + done, n - done);
        if (part <= 0)
            return false;
        done += (size_t)part;
    }
    return true;
}

static bool one(void *context, const struct hx_fuzz_case *fuzz_case, unsigned *kind)
{
    unsigned *counter = context;
    char path[64];
    int fd = memfd_create("core", MFD_CLOEXEC);
    if (fd < 0 || !write_all(fd, fuzz_case->bytes, fuzz_case->n))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const unsigned in = strstr(fuzz_case->seed, "/malloc-") ? FILES_OF_ALLOCATORS_IN : FILES_IN;
    bool right = judge(take(path, (*counter)++ % in == 0, kind), kind);
    close(fd);
    return right;
}

int main(int argc, char **argv)
{
    const struct hx_fuzz fuzz = {.one = one, .kinds = kinds, .begin = begin, .end = free};
    return hx_fuzz_main(&fuzz, argc, argv);
}
