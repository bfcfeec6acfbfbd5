/* column_scan.h - which rows of a decoded column have a value in an interval, many rows at once. */
#ifndef HX_STORE_OBJECTS_COLUMN_SCAN_H
#define HX_STORE_OBJECTS_COLUMN_SCAN_H

#include "store/objects/blocks.h"

/* Strikes out the rows in [from, end) whose value is not in low..high: their pass[i] becomes 0. */
void hx_scan_strike(const struct hx_decoded *column, uint64_t low, uint64_t high, size_t from,
                    size_t end, uint8_t *restrict pass);

/* The next row in [i, end) whose value is in low..high; or `end`. */
size_t hx_scan_next(const struct hx_decoded *column, uint64_t low, uint64_t high, size_t i,
                    size_t end);

/* How many rows in [from, end) have a value in low..high. */
uint64_t hx_scan_count(const struct hx_decoded *column, uint64_t low, uint64_t high, size_t from,
                       size_t end);

#endif
