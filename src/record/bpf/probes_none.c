/* probes_none.c - the recorder of running processes in a build without what it needs. */
#include "record/record.h"

static hx_error *probes_not_built(void)
{
    return hx_error_new(HX_E_LIMIT, "the recorder of running processes",
                        "install clang, llvm and libbpf-dev and build heapx again; "
                        "`heapx run -- CMD` records a program from its start without them",
                        "this build has none: libbpf or clang was missing");
}

hx_error *hx_probes_possible(void)
{
    return probes_not_built();
}

hx_error *hx_probes_open(pid_t pid, const struct hx_record_options *options,
                         const struct hx_source **ret, void **ret_state, char **ret_notes)
{
    (void)pid, (void)options, (void)ret, (void)ret_state, (void)ret_notes;
    return probes_not_built();
}
