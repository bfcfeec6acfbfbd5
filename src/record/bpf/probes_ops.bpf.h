/* probes_ops.bpf.h - what the operations of heapx/scc.h do to a thread's marks: a part of
 * probes.bpf.c, which has included probes_marks.bpf.h. */

/* --- lists of marks ------------------------------------------------------------------- */

#define STACK_MAX (64 << 20) /* bytes of one stack, where it is not known where it ends */

struct sift {
    struct marks *m;
    u64 sp; /* those deeper on the same stack are dropped; 0: none */
    u32 base, unused;
};

/* Is a mark that was made later than one at `sp` of the stack `base` on the same stack? */
static __always_inline bool is_deeper(struct mark *mark, u64 sp, u32 base)
{
    if (mark->base && base)
        return mark->base == base;
    return mark->sp <= sp && sp - mark->sp < STACK_MAX;
}

/* Moves the marks that stay over those that do not. */
static long sift_one(u32 i, struct sift *f)
{
    struct marks *m = f->m;
    u32 from = m->walk.from, to = m->walk.to;
    if (from >= m->n)
        return 1;
    struct mark mark = m->mark[from & MARK_MASK];
    bool drop = f->sp && is_deeper(&mark, f->sp, f->base);
    m->walk.from = from + 1;
    if (!mark.word || drop) {
        m->walk.dropped += mark.word != 0;
        return 0;
    }
    m->mark[to & MARK_MASK] = mark;
    m->walk.to = to + 1;
    return 0;
}

/* Drops dead marks from number `at` on and, unless sp is 0, those deeper on the stack `base`. How
 * many of these lived. */
static __noinline u32 sift(struct marks *m, u32 at, u64 sp, u32 base)
{
    struct sift f = {.m = m, .sp = sp, .base = base};
    if (!m)
        return 0;
    m->walk.from = m->walk.to = at;
    m->walk.dropped = 0;
    bpf_loop(MARKS, sift_one, &f, 0);
    m->n = m->walk.to;
    return m->walk.dropped;
}

struct find {
    struct marks *m;
    u64 sp;
    u32 id, unused;
};

/* Is it on the stack where `sp` is further outside? A pop at the end of a function may have left
 * its frame. */
static __always_inline bool is_around(struct mark *mark, u64 sp)
{
    if (mark->sp > sp)
        return false;
    return mark->base ? (u32)(mark->base - (u32)(sp >> 4)) < STACK_MAX : sp - mark->sp < STACK_MAX;
}

static long find_one(u32 i, struct find *f)
{
    struct marks *m = f->m;
    u32 at = m->walk.from; /* marks before this one are still to be looked at */
    if (!at)
        return 1;
    struct mark *mark = &m->mark[(at - 1) & MARK_MASK];
    if (mark->word && mark->id == f->id) {
        if (!m->walk.found)
            m->walk.found = at;
        if (is_around(mark, f->sp)) {
            m->walk.found = at;
            return 1;
        }
    }
    m->walk.from = at - 1;
    return 0;
}

/* 1 + the number of the topmost mark of that id, one of this stack before all others; 0: there is
 * none. */
static __noinline u32 find(struct marks *m, u32 id, u64 sp)
{
    struct find f = {.m = m, .sp = sp, .id = id};
    if (!m)
        return 0;
    m->walk.from = m->n;
    m->walk.found = 0;
    bpf_loop(MARKS, find_one, &f, 0);
    return m->walk.found;
}

struct twin {
    struct marks *m;
    u64 sp, word;
};

/* The same frame cannot have entered that much, nor pushed the same again and again. */
static long drop_twin(u32 i, struct twin *t)
{
    struct marks *m = t->m;
    u32 at = m->walk.from;
    if (at >= m->n)
        return 1;
    struct mark *mark = &m->mark[at & MARK_MASK];
    if (mark->sp == t->sp && (mark->word == t->word || (HX_EV_TAG(mark->word) == HX_EV_DEFERRED &&
                                                        HX_EV_TAG(t->word) == HX_EV_DEFERRED))) {
        mark->word = 0;
        m->walk.dropped++;
    }
    m->walk.from = at + 1;
    return 0;
}

static __noinline u32 drop_twins(struct marks *m, u64 sp, u64 word)
{
    struct twin t = {.m = m, .sp = sp, .word = word};
    if (!m)
        return 0;
    m->walk.from = m->walk.dropped = 0;
    bpf_loop(MARKS, drop_twin, &t, 0);
    return m->walk.dropped;
}

/* --- what went wrong --------------------------------------------------------------------- */

static __noinline int send_unbalanced(struct marks *m, u64 more)
{
    u64 n = more;
    if (m)
        n += m->unbalanced;
    struct hx_ev_word *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e) {
        if (m)
            m->unbalanced = n;
        return 0;
    }
    e->head = event_head(HX_EV_UNBALANCED);
    e->word = n;
    bpf_ringbuf_submit(e, wakes());
    if (m)
        m->unbalanced = 0;
    return 0;
}

/* Nothing was there to be popped: a mistake, or of a time before the probes. */
static __always_inline int pop_nothing(struct marks *m, u32 id, u64 sp)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    bool late = BPF_CORE_READ(task, start_time) > shared.marks_ns;
    if (!m)
        return late ? send_unbalanced(m, 1) : 0;
    bool again = m->any_pop && m->popped_id == id && m->popped_sp == sp;
    m->any_pop = 1;
    m->popped_id = id;
    m->popped_sp = sp;
    return late || again || sp < m->high ? send_unbalanced(m, 1) : 0;
}

/* --- what the operations are about ----------------------------------------------------------- */

/* A hash of what a mark is popped by; regions and captures have none in common. */
static __always_inline u32 mark_id(u64 id, u32 deferred)
{
    return (u32)(mixed(0, id) >> 16) << 1 | deferred;
}

/* One text of a region, at most max bytes with the 0 byte. A null pointer is an empty text. Returns
 * its bytes, 0 when it cannot be read. */
static __always_inline u32 read_region_text(char *to, u32 max, const char *from)
{
    if (!from) {
        *to = 0;
        return 1;
    }
    long n = bpf_probe_read_user_str(to, max, from);
    return n > 0 ? (u32)n : 0;
}

#define LABEL_MAX    128
#define FUNCTION_MAX 96
#define FILE_MAX     160

struct centre {
    const char *label, *function, *file;
    u32 line, unused;
};

/* Tells heapx of a region. What is not in memory at the moment heapx reads by itself. */
static __noinline int send_region(u64 word, u64 address)
{
    struct centre centre;
    struct hx_probe_scratch *s = claim_scratch();
    if (!s)
        return 0;
    struct hx_ev_centre *e = (void *)s->record;
    char *text = (char *)&s->record[sizeof *e / 8];
    u32 at = 0, n = 0;
    if (!bpf_probe_read_user(&centre, sizeof centre, (void *)address) &&
        (at = read_region_text(text, LABEL_MAX, centre.label)) != 0 &&
        (n = read_region_text(text + (at & 255), FUNCTION_MAX, centre.function)) != 0) {
        at = (at & 255) + (n & 127);
        n = read_region_text(text + (at & 255), FILE_MAX, centre.file);
        at = (at & 255) + (n & 255);
    }
    if (n) {
        e->word = word;
        e->address = address;
        e->line = centre.line;
        e->n = at;
        e->head = event_head(HX_EV_CENTRE);
        bpf_ringbuf_output(&ring, e, (sizeof *e + at + 7) & 1023 & ~7u, wakes());
    }
    release(s);
    return 0;
}

static __always_inline u64 word_of_region(u64 address)
{
    u32 one = 1;
    u64 word = HX_PROBE_REGION(address, shared.epoch & 4095);
    if (!bpf_map_lookup_elem(&regions, &word) &&
        !bpf_map_update_elem(&regions, &word, &one, BPF_NOEXIST))
        send_region(word, address);
    return word;
}

/* --- the operations ----------------------------------------------------------------------------
 */

/* The function that marks, from the first instruction of the probe's. */
static __always_inline bool start_at(struct pt_regs *regs, struct start *from)
{
    from->sp = regs->sp + 8;
    from->fp = regs->bp;
    return !bpf_probe_read_user(&from->pc, 8, (void *)regs->sp);
}

/* Room for one more. */
static __noinline int make_room(struct pt_regs *regs, struct marks *m, u64 word)
{
    struct start from = {.marked = 1, .pruning = 1};
    if (!m)
        return 0;
    m->extra_end = regs->sp + 8;
    if (!start_at(regs, &from))
        return 0;
    take_from(&from);
    if (from.cfa > m->extra_end)
        m->extra_end = from.cfa;
    u32 dropped = from.dropped ? from.dropped : drop_twins(m, from.sp, word);
    if (dropped) {
        sift(m, 0, 0, 0);
        send_unbalanced(m, dropped);
    }
    return 0;
}

/* Puts a mark on top. False: there is no room. */
static __always_inline bool add_mark(struct pt_regs *regs, struct marks *m, u64 word, u32 id)
{
    u64 sp = regs->sp + 8;
    if (m->extra && sp > m->extra_end) { /* these were left without a pop */
        send_unbalanced(m, m->extra);
        m->extra = 0;
    }
    if (m->n >= MARKS && !m->extra)
        make_room(regs, m, word);
    u32 n = m->n;
    if (n >= MARKS || m->extra) {
        m->extra++;
        return false;
    }
    m->mark[n & MARK_MASK] = (struct mark){.sp = sp, .word = word, .id = id};
    m->n = n + 1;
    return true;
}

static __noinline int push(struct pt_regs *regs, u64 address)
{
    struct marks *m = marks_of(BPF_LOCAL_STORAGE_GET_F_CREATE);
    struct start from = {.marked = 1, .pruning = 1};
    u64 word = word_of_region(address);
    hits()->pushes++;
    if (!m || !add_mark(regs, m, word, mark_id(address, 0)))
        return 0;
    if (regs->sp + 8 > m->high)
        m->high = regs->sp + 8;
    if (!start_at(regs, &from))
        return 0;
    u64 key = take_from(&from);
    if (from.dropped) {
        sift(m, 0, 0, 0);
        send_unbalanced(m, from.dropped);
    }
    struct hx_ev_word *e = key >= HX_EV_KEY_FIRST ? bpf_ringbuf_reserve(&ring, sizeof *e, 0) : NULL;
    if (!e) {
        __sync_fetch_and_add(&shared.lost_entries, 1);
        return 0;
    }
    e->head = event_head(HX_EV_ENTRY);
    e->word = key;
    bpf_ringbuf_submit(e, wakes());
    return 0;
}

static __noinline int pop_mark(u64 sp, u32 id)
{
    struct marks *m = marks_of(0);
    hits()->pops++;
    if (!m)
        return pop_nothing(m, id, sp);
    if (m->extra) {
        if (sp <= m->extra_end) {
            m->extra--;
            return 0;
        }
        send_unbalanced(m, m->extra);
        m->extra = 0;
    }
    u32 n = m->n, found = n;
    if (n) {
        struct mark *top = &m->mark[(n - 1) & MARK_MASK];
        if (top->id != id || !top->word || !is_around(top, sp))
            found = find(m, id, sp);
    }
    if (!found)
        return pop_nothing(m, id, sp);
    u32 base = m->mark[(found - 1) & MARK_MASK].base;
    m->any_pop = 1;
    m->popped_id = id;
    m->popped_sp = sp;
    m->mark[(found - 1) & MARK_MASK].word = 0;
    if (found == n) {
        m->n = n - 1;
        return 0;
    }
    u32 skipped = sift(m, (found - 1) & MARK_MASK, sp, base);
    return skipped ? send_unbalanced(m, skipped) : 0;
}

struct chain {
    u64 plain, key, found;
};

static long chain_one(u32 i, struct chain *c)
{
    struct captured *e = c->key ? bpf_map_lookup_elem(&captured, &c->key) : NULL;
    if (!e)
        return 1;
    if (e->plain == c->plain) {
        c->found = c->key;
        return 1;
    }
    c->key = e->parent;
    return 0;
}

/* Work that submits itself again and again has one captured stack, not a new one each time. */
static __noinline u64 captured_as(u64 key, u64 plain, u64 parent)
{
    struct chain c = {.plain = plain, .key = parent};
    bpf_loop(CHAIN_MAX, chain_one, &c, 0);
    if (c.found)
        return c.found;
    struct captured new = {.plain = plain, .parent = parent};
    struct captured *behind = parent ? bpf_map_lookup_elem(&captured, &parent) : NULL;
    if (behind)
        new.depth = behind->depth + 1;
    bpf_map_update_elem(&captured, &key, &new, BPF_ANY);
    return key;
}

static __noinline int capture_stack(struct pt_regs *regs, u64 id)
{
    struct start from = {.marked = 1, .capturing = 1};
    hits()->pushes++;
    if (!start_at(regs, &from))
        return 0;
    u64 key = take_from(&from);
    if (key < HX_EV_KEY_FIRST)
        return 0;
    key = captured_as(key, from.plain, from.parent);
    bpf_map_update_elem(&captures, &id, &key, BPF_ANY);
    return 0;
}

static __noinline int enter_captured(struct pt_regs *regs, u64 id)
{
    struct marks *m = marks_of(BPF_LOCAL_STORAGE_GET_F_CREATE);
    u64 *key = bpf_map_lookup_elem(&captures, &id);
    hits()->pops++;
    if (m)
        add_mark(regs, m, HX_EV_DEFERRED | (key ? *key : 0), mark_id(id, 1));
    return 0;
}

SEC("uprobe/mark")
int on_mark(struct pt_regs *regs)
{
    u64 id = regs->di, sp = regs->sp + 8;
    if (!shared.armed)
        return 0;
    switch (bpf_get_attach_cookie(regs) & 255) {
    case HX_PROBE_PUSH:
        return push(regs, id);
    case HX_PROBE_POP:
        return pop_mark(sp, mark_id(id, 0));
    case HX_PROBE_CAPTURE:
        return capture_stack(regs, id);
    case HX_PROBE_ENTER:
        return enter_captured(regs, id);
    case HX_PROBE_LEAVE:
        return pop_mark(sp, mark_id(id, 1));
    }
    return 0;
}
