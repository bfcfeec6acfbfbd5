/* must.h - a test's own program ends with a line when something that has to work does not. */
#ifndef HX_TEST_MUST_H
#define HX_TEST_MUST_H

#include "base/error.h"

void die(const char *why) __attribute__((noreturn));

/* Dies of an error; NULL is none. */
void must(hx_error *error);

#endif
