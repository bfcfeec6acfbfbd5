/* pthread_record.c - reading glibc's struct pthread by its shape. */
#include "attach/roots/pthread_record.h"

#define PAGE         4096
#define BLOCK_MAX    ((uint64_t)1 << 46) /* bytes of a stack */
#define ABOVE_MAX    0x10000             /* bytes of a stack above the thread pointer */
#define HEADER_BYTES 0x100               /* tcbhead_t fills at least this much */
#define DTV_ENTRIES  4096                /* looked at */

/* The library's own stacks are whole pages; one that the program brought has no guard. */
static bool is_block(uint64_t tp, uint64_t block, uint64_t bytes, uint64_t guard)
{
    return block && block % (guard ? PAGE : 16) == 0 && block < tp && bytes <= BLOCK_MAX &&
           tp - block < bytes && bytes - (tp - block) <= ABOVE_MAX && guard < bytes &&
           guard % PAGE == 0;
}

bool hx_pthread_read(const struct hx_image *image, uint64_t address, struct hx_pthread_record *ret)
{
    *ret = (struct hx_pthread_record){.address = address};
    if (!address || address % 8)
        return false;
    while (ret->n < HX_PTHREAD_WORDS &&
           hx_image_u64(image, address + ret->n * 8, &ret->word[ret->n]))
        ret->n++;
    if (ret->n < 3 || ret->word[0] != address || ret->word[2] != address)
        return false;
    for (size_t i = 3; i + 2 < ret->n; i++) {
        if (!is_block(address, ret->word[i], ret->word[i + 1], ret->word[i + 2]))
            continue;
        ret->has_block = true;
        ret->block = ret->word[i];
        ret->bytes = ret->word[i + 1];
        ret->guard = ret->word[i + 2];
        break;
    }
    return true;
}

bool hx_pthread_is_listed(const struct hx_image *image, const struct hx_pthread_record *record,
                          size_t tid_offset)
{
    size_t tid_word = tid_offset / 8;
    if (tid_word < 2 || tid_word >= record->n)
        return false;
    uint64_t list = record->address + tid_offset - 16, back;
    uint64_t next = record->word[tid_word - 2], prev = record->word[tid_word - 1];
    return next % 8 == 0 && prev % 8 == 0 && hx_image_u64(image, next + 8, &back) && back == list &&
           hx_image_u64(image, prev, &back) && back == list;
}

size_t hx_pthread_tid_offset(const struct hx_image *image, const struct hx_pthread_record *record,
                             pid_t tid)
{
    for (size_t i = HEADER_BYTES / 8; i < record->n; i++)
        if ((uint32_t)record->word[i] == (uint32_t)tid &&
            hx_pthread_is_listed(image, record, i * 8))
            return i * 8;
    return 0;
}

uint64_t hx_pthread_tls_start(const struct hx_image *image, const struct hx_pthread_record *record,
                              uint64_t low)
{
    uint64_t dtv = record->word[1], count, start = record->address;
    /* dtv[-1] is the number of entries, dtv[i] = { block, what to free }. */
    if (dtv < 16 || dtv % 8 || !hx_image_u64(image, dtv - 16, &count))
        return start;
    if (count > DTV_ENTRIES)
        count = DTV_ENTRIES;
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t block;
        if (!hx_image_u64(image, dtv + 16 * i, &block))
            break;
        if (block >= low && block < start)
            start = block & ~(uint64_t)7;
    }
    return start;
}
