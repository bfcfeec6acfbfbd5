/* probes_object.c - the compiled programs of probes.bpf.c, as bytes of heapx.
 *
 * The path is seen from the top of the build folder, where the compiler runs.
 */

__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".globl hx_probes_object, hx_probes_object_end\n"
        "hx_probes_object:\n"
        ".incbin \"src/record/bpf/probes.bpf.o\"\n"
        "hx_probes_object_end:\n"
        ".byte 0\n"
        ".popsection\n");

/* A file needs a declaration. */
extern const char hx_probes_object[];
