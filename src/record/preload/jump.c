/* jump.c - longjmp() and its like: what is marked on the frames that they leave is taken away at
 * once. Without this it would be noticed later, and not in each case.
 *
 * Where a jump goes is in the buffer, as glibc writes it: the stack pointer rotated, and combined
 * with a number of the thread. What does not look like it is left alone.
 */
#include "record/preload/preload.h"

#include <setjmp.h>

#define WORD_OF_SP 6

static __attribute__((noinline, cold)) void leave_frames(const struct __jmp_buf_tag *buffer)
{
    const struct hx_writer *writer = hx_thread_state.writer[0];
    uint64_t sp = (uint64_t)buffer->__jmpbuf[WORD_OF_SP], guard;
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    sp = (sp >> 17 | sp << 47) ^ guard;
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    if (writer && sp > here && hx_unwind_on_own(writer->unwind, here, sp))
        hx_marks_leave_frames(&hx_marks, sp);
}

#define JUMP(name)                                                                                 \
    HX_EXPORT void hx_##name(struct __jmp_buf_tag *buffer, int value) __asm__(#name)               \
        __attribute__((noreturn));                                                                 \
    HX_EXPORT void hx_##name(struct __jmp_buf_tag *buffer, int value)                              \
    {                                                                                              \
        static void (*real)(struct __jmp_buf_tag *, int);                                          \
        if (HX_RARELY(!real))                                                                      \
            *(void **)&real = hx_real_next(#name);                                                 \
        if (HX_RARELY(hx_marks.n))                                                                 \
            leave_frames(buffer);                                                                  \
        real(buffer, value);                                                                       \
        __builtin_unreachable();                                                                   \
    }
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
