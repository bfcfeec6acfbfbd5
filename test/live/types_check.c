/* types_check.c - the types of objects against a program that tells the truth.
 *
 *   types_check PROGRAM [ARG...]
 *
 * Starts PROGRAM (classes, or one that speaks like it), takes a snapshot and compares: each
 * block is an object of exactly that type, or of none, and each type is as certain as the
 * least certain of its blocks. Exit 77 where processes may not be traced.
 */
#include "config.h"

#include "attach/attach.h"
#include "attach/preflight.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct truth {
    uint64_t address;
    bool likely;
    char *name; /* "-": no type */
};

typedef HX_VEC(struct truth) truths;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "types_check: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void die_error(hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "types_check: %s\n", line);
    exit(err->kind == HX_E_PERM ? 77 : 2);
}

/* The child's stdin stays open in *ret_in; its end ends the child. */
static pid_t start(char **argv, int *ret_in, FILE **ret_out)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(argv[0], argv);
        die(argv[0]);
    }
    close(in[0]);
    close(out[1]);
    *ret_in = in[1];
    *ret_out = fdopen(out[0], "r");
    return pid;
}

static void read_truths(FILE *out, truths *ret)
{
    HX_FREE char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, out)) > 0) {
        line[n - 1] = 0;
        if (strcmp(line, "ready") == 0)
            return;
        char *at = line;
        struct truth truth = {.address = strtoull(line, &at, 16)};
        char *name = *at == ' ' ? strchr(at + 1, ' ') : NULL;
        if (!name)
            break;
        truth.likely = strncmp(at + 1, "likely", 6) == 0;
        truth.name = strdup(name + 1);
        if (!truth.name || !hx_vec_push(ret, truth))
            die("truth");
    }
    fprintf(stderr, "types_check: the truth ends early\n");
    exit(2);
}

static struct hx_snapshot *take(pid_t pid)
{
    hx_attach *attach = NULL;
    struct hx_snapshot *snapshot = NULL;
    struct hx_capture_options options = {0};
    die_error(hx_attach_open(pid, &attach));
    die_error(hx_attach_capture(attach, &options, NULL, &snapshot));
    die_error(hx_attach_types(attach, snapshot, 2, NULL));
    hx_attach_close(attach);
    return snapshot;
}

static const char *type_at(const struct hx_snapshot *snapshot, uint64_t address)
{
    hx_obj object = hx_graph_find(&snapshot->graph, address);
    if (object == HX_NO_OBJ || snapshot->graph.addr[object] != address)
        return "no object";
    uint32_t type = snapshot->graph.type[object];
    return type == HX_NO_TYPE ? "-" : snapshot->types.v[type].name;
}

static unsigned compare(const struct hx_snapshot *snapshot, const truths *all)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *got = type_at(snapshot, all->v[i].address);
        if (strcmp(got, all->v[i].name) == 0)
            continue;
        if (wrong++ < 20)
            fprintf(stderr, "0x%" PRIx64 " is %s, not %s\n", all->v[i].address, all->v[i].name,
                    got);
    }
    for (size_t k = 0; k < snapshot->types.n; k++) {
        const struct hx_type *type = &snapshot->types.v[k];
        bool named = false, likely = false;
        for (size_t i = 0; i < all->n; i++)
            if (strcmp(all->v[i].name, type->name) == 0) {
                named = true;
                likely |= all->v[i].likely;
            }
        if (!named || likely == (type->confidence == HX_CONFIDENCE_LIKELY))
            continue;
        wrong++;
        fprintf(stderr, "type %s is called %s\n", type->name, hx_confidence_name(type->confidence));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    char *words[8] = {0};
    if (argc < 2 || argc > 5) {
        fprintf(stderr, "usage: types_check PROGRAM [ARG...]\n");
        return 2;
    }
    int n = 0;
    words[n++] = argv[1];
#ifndef HX_HAVE_DEMANGLER
    words[n++] = (char[]){"-m"};
#endif
    for (int i = 2; i < argc; i++)
        words[n++] = argv[i];

    int in;
    FILE *out;
    truths all = {0};
    pid_t pid = start(words, &in, &out);
    read_truths(out, &all);
    struct hx_snapshot *snapshot = take(pid);
    close(in);
    waitpid(pid, NULL, 0);
    unsigned wrong = compare(snapshot, &all);
    printf("%zu blocks, %zu types, %u wrong\n", all.n, snapshot->types.n, wrong);
    for (size_t i = 0; i < all.n; i++)
        free(all.v[i].name);
    hx_vec_free(&all);
    hx_snapshot_destroy(snapshot);
    fclose(out);
    return wrong != 0;
}
