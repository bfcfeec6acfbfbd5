/* interior.h - interior pointers that programs hold on purpose.
 *
 * The rules are facts about Valgrind's leak checker: a std::string of the old ABI is
 * held by its text behind length, capacity and reference count; an allocation with a
 * length prefix and a new[] array by the byte behind one word; an object with several
 * base classes by the vtable pointer of a later one. What was requested is not known,
 * only that it lies in (usable - 16, usable], or 16 bytes lower where glibc did not split
 * a block, because the rest was too small: a rule holds when one of these requests
 * satisfies it and still contains the byte pointed to. Of new[] arrays the lower ones are
 * left out: with them nearly every small number would be a count.
 */
#ifndef HX_TRAVERSE_SCAN_INTERIOR_H
#define HX_TRAVERSE_SCAN_INTERIOR_H

#include "traverse/scan/scan.h"

#define HX_INTERIOR_RULES_SLOTS 4096 /* a power of two */

/* One thread's judge. */
struct hx_interior_rules {
    const struct hx_image *image;
    const struct hx_scan_options *options;
    size_t span; /* where the last word was found */
    /* What is_vtable said of recent words, by hash: verdict[i] is 1 + what it said of
     * word[i], 0 while nothing stands there. */
    uint64_t word[HX_INTERIOR_RULES_SLOTS];
    uint8_t verdict[HX_INTERIOR_RULES_SLOTS];
};

void hx_interior_rules_init(struct hx_interior_rules *rules, const struct hx_image *image,
                            const struct hx_scan_options *options);

/* Is a pointer to `addr + offset` a known shape? `addr` and `size` are the object's,
 * 0 < offset < size. A word that the image does not hold satisfies nothing. */
bool hx_interior_rules_match(struct hx_interior_rules *rules, uint64_t addr, uint64_t size,
                             uint64_t offset);

/* Asks for the memory that hx_interior_rules_match() will read. */
void hx_interior_rules_prefetch(struct hx_interior_rules *rules, uint64_t addr, uint64_t offset);

#endif
