/* records.h - what records.c and records_other.c share. */
struct opaque; /* records_other.c knows */
struct opaque *make_opaque(unsigned long n);
