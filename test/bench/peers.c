/* peers.c - attaches the probes of peers.bpf.c to a process.
 *
 *   peers count|leak PID LIBRARY OBJECT
 *
 * Says "attached", waits for the end of its input, and says how often malloc was counted.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bpf_link *attach(struct bpf_object *object, const char *way, const char *what,
                               const char *function, bool on_return, int pid, const char *library)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", way, what);
    struct bpf_program *program = bpf_object__find_program_by_name(object, name);
    LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = function, .retprobe = on_return);
    struct bpf_link *link =
        program ? bpf_program__attach_uprobe_opts(program, pid, library, 0, &opts) : NULL;
    if (!link)
        fprintf(stderr, "%s: cannot be attached\n", name);
    return link;
}

static unsigned long long total(struct bpf_object *object)
{
    unsigned long long value[1024] = {0}, sum = 0;
    unsigned key = 0;
    int fd = bpf_object__find_map_fd_by_name(object, "counts");
    if (libbpf_num_possible_cpus() <= 1024 && bpf_map_lookup_elem(fd, &key, value) == 0)
        for (size_t i = 0; i < sizeof value / sizeof *value; i++)
            sum += value[i];
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const char *way = argv[1], *library = argv[3];
    int pid = atoi(argv[2]);
    struct bpf_object *object = bpf_object__open_file(argv[4], NULL);
    if (!object || bpf_object__load(object) != 0)
        return 1;
    struct bpf_link *link[3] = {
        attach(object, way, "malloc", "malloc", false, pid, library),
        attach(object, way, "malloc_return", "malloc", true, pid, library),
        attach(object, way, "free", "free", false, pid, library),
    };
    if (!link[0] || !link[1] || !link[2])
        return 1;
    printf("attached\n");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    printf("counted %llu\n", total(object));
    for (size_t i = 0; i < 3; i++)
        bpf_link__destroy(link[i]);
    bpf_object__close(object);
    return 0;
}
