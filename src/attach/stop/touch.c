/* touch.c - writes of the kernel, by reading /dev/zero. */
#include "attach/stop/touch.h"

#include "base/cleanup.h"
#include "base/timing.h"

#include <fcntl.h>
#include <unistd.h>

/* How long it took. Where it fails nothing but time is lost later. */
static uint64_t read_zeros(int zeros, uint8_t *memory, size_t bytes)
{
    const uint64_t since = hx_now_ns();
    for (ssize_t got; bytes && (got = read(zeros, memory, bytes)) > 0; bytes -= (size_t)got)
        memory += got;
    return hx_now_ns() - since;
}

void hx_touch_by_kernel(void *memory, size_t bytes)
{
    const size_t sample = bytes < 65536 ? bytes : 65536;
    HX_FD int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zeros < 0)
        return;
    const uint64_t first = read_zeros(zeros, memory, sample);
    if (first > 2 * read_zeros(zeros, memory, sample))
        read_zeros(zeros, (uint8_t *)memory + sample, bytes - sample);
}
