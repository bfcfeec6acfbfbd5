/* touch.h - memory that the kernel will write costs it no page faults then.
 *
 * A hypervisor that keeps the page tables (shadow paging, where the processor does not help) has
 * others for the kernel than for the process: the first write of the kernel to a page, as by
 * process_vm_readv(), can cost 2 to 8 us although the process has written it: eight times the copy.
 */
#ifndef HX_ATTACH_STOP_TOUCH_H
#define HX_ATTACH_STOP_TOUCH_H

#include <stddef.h>

/* Has the kernel write zeros to memory that is there, if its writes to the first of it show that
 * this saves much later. */
void hx_touch_by_kernel(void *memory, size_t bytes);

#endif
