/* peers.bpf.c - what the recorder's probes are measured against (peers.c loads one of the two).
 *
 * count_*: probes that only count, the least that entry and return of malloc and entry of free can
 * cost. leak_*: the plain way to find leaks with maps: the size waits in a map for the return, the
 * stack comes from bpf_get_stackid(), live blocks lie in a hash map, and each stack has a sum.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>

#define BLOCKS 1000000
#define DEPTH  127

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 3);
    __type(key, __u32);
    __type(value, __u64);
} counts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 10240);
    __type(key, __u64);
    __type(value, __u64);
} sizes SEC(".maps");

struct block {
    __u64 size, when;
    __s64 stack;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, BLOCKS);
    __type(key, __u64);
    __type(value, struct block);
} blocks SEC(".maps");

struct sum {
    __u64 bytes, count;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 10240);
    __type(key, __u64);
    __type(value, struct sum);
} sums SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 10240);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, DEPTH * sizeof(__u64));
} stacks SEC(".maps");

static __always_inline int count(__u32 which)
{
    __u64 *n = bpf_map_lookup_elem(&counts, &which);
    if (n)
        ++*n;
    return 0;
}

SEC("uprobe")
int count_malloc(struct pt_regs *ctx)
{
    return count(0);
}

SEC("uretprobe")
int count_malloc_return(struct pt_regs *ctx)
{
    return count(1);
}

SEC("uprobe")
int count_free(struct pt_regs *ctx)
{
    return count(2);
}

SEC("uprobe")
int leak_malloc(struct pt_regs *ctx)
{
    __u64 thread = bpf_get_current_pid_tgid(), size = ctx->rdi;
    bpf_map_update_elem(&sizes, &thread, &size, BPF_ANY);
    return 0;
}

SEC("uretprobe")
int leak_malloc_return(struct pt_regs *ctx)
{
    __u64 thread = bpf_get_current_pid_tgid(), address = ctx->rax;
    __u64 *size = bpf_map_lookup_elem(&sizes, &thread);
    if (!size)
        return 0;
    struct block block = {.size = *size, .when = bpf_ktime_get_ns()};
    bpf_map_delete_elem(&sizes, &thread);
    if (!address)
        return 0;
    block.stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
    bpf_map_update_elem(&blocks, &address, &block, BPF_ANY);
    __u64 key = (__u64)block.stack;
    struct sum *sum = bpf_map_lookup_elem(&sums, &key);
    if (!sum) {
        struct sum none = {};
        bpf_map_update_elem(&sums, &key, &none, BPF_NOEXIST);
        sum = bpf_map_lookup_elem(&sums, &key);
    }
    if (sum) {
        __sync_fetch_and_add(&sum->bytes, block.size);
        __sync_fetch_and_add(&sum->count, 1);
    }
    return 0;
}

SEC("uprobe")
int leak_free(struct pt_regs *ctx)
{
    __u64 address = ctx->rdi;
    struct block *block = bpf_map_lookup_elem(&blocks, &address);
    if (!block)
        return 0;
    __u64 key = (__u64)block->stack, size = block->size;
    bpf_map_delete_elem(&blocks, &address);
    struct sum *sum = bpf_map_lookup_elem(&sums, &key);
    if (sum) {
        __sync_fetch_and_sub(&sum->bytes, size);
        __sync_fetch_and_sub(&sum->count, 1);
    }
    return 0;
}

char peers_license[] SEC("license") = "GPL";
