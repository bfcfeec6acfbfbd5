/* probes_marks.bpf.h - the regions that a program marks (heapx/scc.h), and the work it defers: a
 * part of probes.bpf.c.
 *
 * A thread's marks stand in the order of time. Each has the stack pointer of the function that made
 * it, so a frame lies inside when it ends below. A mark belongs to a frame of the stack that is
 * walked, or it is left alone: it is of another stack (a coroutine's), or stale, that is its
 * function was left without a pop. The two are told apart by where the outermost frame of a mark's
 * stack ends, its `base`, which is known once a walk has come by.
 *
 * Marks that were made before the probes were set are not known, and a pop of one is no mistake. So
 * pops that find nothing count only where that cannot be: in a thread that began later, further
 * inside than a region that was seen, or for the second time.
 */

#define MARKS     256
#define MARK_MASK (MARKS - 1)

struct mark {
    u64 sp : 48;
    u64 frame : 16; /* frame_tag() it; 0: not known */
    u64 word;       /* in frames; 0: dead, and waits for its place to be taken */
    u32 id;         /* hash of what it is popped by */
    u32 base;       /* of its stack, / 16; 0: not known */
};

struct marks {
    u32 n, extra;           /* extra: pushed while there was no room */
    u64 extra_end;          /* where the frame ends that pushed the first of them */
    u64 high;               /* the highest sp of a push */
    u64 popped_sp;          /* the last pop: where, */
    u32 popped_id, any_pop; /* and of what */
    u64 unbalanced;         /* not sent yet */
    struct {                /* a walk over the list: see struct merge */
        u32 from, to, dropped, found;
    } walk;
    struct mark mark[MARKS];
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct marks);
} marks SEC(".maps");

/* Words of regions that are known to heapx. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 65536);
    __type(key, u64);
    __type(value, u32);
} regions SEC(".maps");

/* Ids of captures to keys of stacks. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, u64);
    __type(value, u64);
} captures SEC(".maps");

/* What is known of a captured stack, by its key. */
struct captured {
    u64 plain;  /* hash of it without the keys of entered ones */
    u64 parent; /* key of the innermost one that was entered; 0: none */
    u32 depth;  /* captured stacks behind it */
    u32 unused;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, u64);
    __type(value, struct captured);
} captured SEC(".maps");

#define CHAIN_MAX 64

/* From where a stack is taken, and what came out of it. */
struct start {
    u64 pc, sp, fp;
    u64 cfa;           /* where the first frame ends; 0: not known */
    u64 plain, parent; /* as in struct captured */
    u32 marked;        /* 1: with the thread's marks */
    u32 capturing;     /* 1: chains of captured stacks are cut here */
    u32 pruning;       /* 1: stale marks become dead */
    u32 base;          /* of the stack, / 16; 0: not known */
    u32 dropped;       /* marks that became dead */
    u32 unused;
};

static __always_inline struct marks *marks_of(u64 flags)
{
    return bpf_task_storage_get(&marks, bpf_get_current_task_btf(), 0, flags);
}

static __always_inline u64 mixed(u64 hash, u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 32;
}

/* --- marks among frames --------------------------------------------------------------- */

/* Numbers that a loop counts up lie in maps, where the verifier does not follow them. */
struct merge {
    struct hx_probe_scratch *s;
    struct marks *m;
    struct start *from;
};

/* Does a mark lie in a frame further outside than the one that ends at `high`? */
static __always_inline bool comes_later(struct merge *g, u64 sp, u64 high)
{
    struct hx_probe_scratch *s = g->s;
    if (g->s->merge.turned || s->turn >= HX_EV_FRAMES_MAX)
        return sp >= high && sp < g->s->merge.end;
    return (sp >= high && sp < s->turn_low) || (sp >= s->turn_high && sp < g->s->merge.end);
}

static __always_inline long put(struct merge *g, u64 word, u64 plain)
{
    u32 n = g->s->merge.n;
    if (n >= HX_EV_FRAMES_MAX) {
        g->s->cut = 1;
        return 1;
    }
    g->s->merged[n & (HX_EV_FRAMES_MAX - 1)] = word;
    g->s->merge.hash = mixed(g->s->merge.hash, word);
    g->s->merge.plain = mixed(g->s->merge.plain, plain);
    g->s->merge.n = n + 1;
    return 0;
}

static __noinline u64 deferred_here(struct start *from, u64 word)
{
    u64 key = HX_EV_VALUE(word);
    if (!from)
        return word;
    struct captured *c = NULL;
    if (from->capturing && !from->parent) /* what is further outside was replaced by that one */
        c = bpf_map_lookup_elem(&captured, &key);
    if (c && c->depth + 1 >= CHAIN_MAX)
        word = HX_EV_DEFERRED;
    if (!from->parent)
        from->parent = HX_EV_VALUE(word);
    return word;
}

/* 16 bits that tell frames at the same place apart: by where they end, and go on in their caller.
 */
static __always_inline u64 frame_tag(struct merge *g, u64 sp, u64 end)
{
    struct hx_probe_scratch *s = g->s;
    u32 next = s->merge.at + 1;
    u64 pc = next < s->n ? s->record[8 + (next & (HX_EV_FRAMES_MAX - 1))] : 0;
    return (mixed(end - sp, pc) >> 20 & 0xffff) | 1;
}

static __always_inline long merge_mark(struct merge *g, struct mark *mark, u64 high)
{
    u64 word = mark->word;
    mark->base = g->from->base;
    mark->frame = frame_tag(g, mark->sp, high);
    if (HX_EV_TAG(word) != HX_EV_DEFERRED)
        return put(g, word, word);
    return put(g, deferred_here(g->from, word), HX_EV_DEFERRED);
}

/* A mark that lies in no frame: is it stale? */
static __always_inline void pass(struct merge *g, struct mark *mark)
{
    if (g->from->pruning && mark->word && g->from->base && mark->base == g->from->base) {
        mark->word = 0;
        g->from->dropped++;
    }
}

static long merge_one(u32 i, struct merge *g)
{
    struct hx_probe_scratch *s = g->s;
    u32 at = g->s->merge.at, left = g->s->merge.left;
    u64 cfa = s->cfa[at & (HX_EV_FRAMES_MAX - 1)];
    u64 high = at < s->n ? cfa & ~1ULL : g->s->merge.end;
    if (left) {
        struct mark *mark = &g->m->mark[(left - 1) & MARK_MASK];
        u64 sp = mark->sp;
        u64 frame = mark->frame;
        bool inside = sp >= g->s->merge.low && sp < high && !(cfa & 1);
        /* at the same place there may be another frame by now */
        if (mark->word && at < s->n && inside && (!frame || frame == frame_tag(g, sp, high))) {
            g->s->merge.left = left - 1;
            return merge_mark(g, mark, high);
        }
        if (!mark->word || !comes_later(g, sp, high)) {
            pass(g, mark);
            g->s->merge.left = left - 1;
            return 0;
        }
    }
    if (at >= s->n)
        return 1;
    if (at < 64 && s->exact >> at & 1 && g->s->merge.n < 64)
        g->s->merge.exact |= 1ULL << (g->s->merge.n & 63);
    g->s->merge.turned |= at == s->turn;
    g->s->merge.low = high;
    g->s->merge.at = at + 1;
    u64 pc = s->record[8 + (at & (HX_EV_FRAMES_MAX - 1))];
    return put(g, pc, pc);
}

/* Puts the marks among the frames of a stack that was walked. */
static __always_inline void merge_marks(struct hx_probe_scratch *s, struct marks *m,
                                        struct start *from)
{
    struct merge g = {.s = s, .m = m, .from = from};
    s->merge = (struct hx_probe_merge){
        .low = from->sp, .hash = shared.seed, .plain = shared.seed, .end = s->sp};
    from->cfa = s->n > 1 ? s->cfa[0] & ~1ULL : 0;
    s->merge.left = m->n;
    /* also where unwinding fails: below a coroutine it always fails at the same place */
    from->base = s->done && s->n < HX_EV_FRAMES_MAX ? s->sp >> 4 : 0;
    bpf_loop(HX_EV_FRAMES_MAX + MARKS + 1, merge_one, &g, 0);
    u32 bytes = s->merge.n * 8;
    if (bytes <= sizeof s->merged)
        bpf_probe_read_kernel(&s->record[8], bytes, s->merged);
    s->n = s->merge.n;
    s->hash = s->merge.hash;
    s->exact = s->merge.exact;
    from->plain = s->merge.plain;
}
