/* pending.c - weak stand-ins until the sources are there; never committed. */
#include "attach/record/record.h"
#define W __attribute__((weak))
W hx_error *hx_probes_open(pid_t pid, const struct hx_record_options *o, const struct hx_source **r,
                           void **s, char **n)
{
    (void)pid;
    (void)o;
    (void)r;
    (void)s;
    (void)n;
    return hx_error_new(HX_E_LIMIT, "probes", NULL, "not there yet");
}
W hx_error *hx_probes_possible(void)
{
    return hx_error_new(HX_E_LIMIT, "probes", NULL, "not there yet");
}
W hx_error *hx_rings_open(int f, pid_t p, const struct hx_source **r, void **s)
{
    (void)f;
    (void)p;
    (void)r;
    (void)s;
    return hx_error_new(HX_E_LIMIT, "rings", NULL, "not there yet");
}
W size_t hx_rings_look(int f, pid_t *r, size_t m)
{
    (void)f;
    (void)r;
    (void)m;
    return 0;
}
W bool hx_rings_wants_exit(void *s, int *r)
{
    (void)s;
    (void)r;
    return false;
}
W void hx_rings_let_exit(void *s)
{
    (void)s;
}
