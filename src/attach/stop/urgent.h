/* urgent.h - a thread that others must not keep waiting, for as long as it has something in hand
 * that the target waits for.
 */
#ifndef HX_ATTACH_STOP_URGENT_H
#define HX_ATTACH_STOP_URGENT_H

#include <stdbool.h>

/* How the calling thread was scheduled before. */
struct hx_urgent {
    int policy, nice;
    bool real_time; /* it has become so */
};

/* Puts the calling thread before all that are not real-time, and those that it makes from then on.
 * Nice values count within a session only where the kernel groups by sessions (autogroup) or
 * cgroups: so it is real-time, of the lowest priority, where it may (CAP_SYS_NICE), else of nice
 * value -20, where it may that. What is done so has to be short. Keeps errno. */
void hx_urgent_begin(struct hx_urgent *ret);

/* The same for what may take long: by the nice value alone. */
void hx_urgent_begin_long(struct hx_urgent *ret);

/* Back to how it was. Keeps errno. */
void hx_urgent_end(const struct hx_urgent *urgent);

#endif
