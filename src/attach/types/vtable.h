/* vtable.h - is an address that of a C++ vtable?
 *
 * The rule is the one of Valgrind's leak checker, so that both agree on what a base class
 * inside an object is: in a part of a file, the words at the address, null ones left out,
 * are addresses in executable segments of files; two of them are enough, and there are at
 * most 20 words to find them in.
 */
#ifndef HX_ATTACH_TYPES_VTABLE_H
#define HX_ATTACH_TYPES_VTABLE_H

#include "model/image.h"
#include "sym/module.h"

/* Safe from any thread. */
bool hx_is_vtable(const struct hx_image *image, hx_modules *modules, uint64_t addr);

#endif
