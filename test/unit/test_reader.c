/* test_reader.c - from events to live blocks and costs.
 *
 * Threads of a simulated program allocate, free and reallocate on few addresses; each of them
 * stamps, publishes and acts at its own pace. Rounds cut what is published at random moments and
 * feed the streams in random order. What the reader then says must be what the events say in the
 * order of their times.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "record/read/reader.h"

#include <math.h>

#define THREADS   5
#define ADDRESSES 12
#define SITES     6
#define EVENTS    600
#define SIZES     5000 /* all are smaller, but for one */
#define HUGE_SIZE ((uint64_t)5 << 30)

struct item {
    uint64_t words[7];
    size_t bytes;
    bool lost, fed;
};

struct stream {
    struct item *item[EVENTS + 8];
    size_t n, fed;
};

enum phase {
    IDLE,
    ALLOC_STAMPED,
    FREE_STAMPED,
    FREE_PUBLISHED,
    BEGIN_STAMPED,
    MOVING,
    END_STAMPED
};
struct thread {
    enum phase phase;
    unsigned slot, other; /* block worked on, and what a realloc makes of it */
    struct item *item;
};

struct sim {
    struct unit_random *random;
    uint64_t clock;
    struct item items[EVENTS + 64];
    size_t n;
    struct stream stream[THREADS];
    struct thread thread[THREADS];
    enum { SLOT_FREE, SLOT_TAKEN, SLOT_OWNED } slot[ADDRESSES]; /* owned: the program has it */
    bool hidden[ADDRESSES];                                     /* its allocation is not recorded */
    unsigned lose_percent, hide_percent;
};

static uint64_t address_of(unsigned slot)
{
    static const uint64_t odd[] = {0x7fffffffe000, (uint64_t)1 << 50};
    return slot < 2 ? odd[slot] : 0x555500001000 + (uint64_t)slot * 32;
}

static unsigned pick_slot(struct sim *sim, int state)
{
    unsigned begin = (unsigned)unit_below(sim->random, ADDRESSES);
    for (unsigned i = 0; i < ADDRESSES; i++)
        if ((int)sim->slot[(begin + i) % ADDRESSES] == state)
            return (begin + i) % ADDRESSES;
    return ADDRESSES;
}

static struct item *stamp(struct sim *sim, enum hx_event_kind kind, size_t bytes)
{
    struct item *item = &sim->items[sim->n++];
    *item = (struct item){.bytes = bytes};
    item->words[0] = HX_EV_HEAD(kind, ++sim->clock);
    item->lost = unit_below(sim->random, 100) < sim->lose_percent;
    return item;
}

static void publish(struct sim *sim, unsigned t)
{
    struct stream *stream = &sim->stream[t];
    stream->item[stream->n++] = sim->thread[t].item;
}

static uint64_t random_size(struct sim *sim)
{
    uint64_t size = unit_below(sim->random, 1000);
    if (size % 8 == 3)
        return 1000 + unit_below(sim->random, SIZES - 1001);
    return size == 7 ? HUGE_SIZE : size;
}

static struct item *stamp_alloc(struct sim *sim, unsigned slot)
{
    struct item *item = stamp(sim, HX_EV_ALLOC, sizeof(struct hx_ev_alloc));
    item->words[1] = address_of(slot);
    item->words[2] = random_size(sim);
    item->words[3] = item->words[2] % 3 ? item->words[2] + 8 : 0;
    item->words[4] = HX_EV_KEY_FIRST + unit_below(sim->random, SITES);
    return item;
}

static void step_idle(struct sim *sim, unsigned t)
{
    struct thread *thread = &sim->thread[t];
    /* which of two blocks a realloc has cannot be told when one of them is not recorded */
    unsigned what = (unsigned)unit_below(sim->random, sim->hide_percent ? 8 : 10);
    thread->slot = pick_slot(sim, what < 5 ? SLOT_FREE : SLOT_OWNED);
    if (thread->slot == ADDRESSES)
        return;
    sim->slot[thread->slot] = SLOT_TAKEN;
    if (what < 5) {
        sim->hidden[thread->slot] = unit_below(sim->random, 100) < sim->hide_percent;
        if (sim->hidden[thread->slot]) {
            sim->clock++;
            sim->slot[thread->slot] = SLOT_OWNED;
            return;
        }
        thread->item = stamp_alloc(sim, thread->slot);
        thread->phase = ALLOC_STAMPED;
    } else if (what < 8) {
        thread->item = stamp(sim, HX_EV_FREE, sizeof(struct hx_ev_free));
        thread->item->words[1] = address_of(thread->slot);
        thread->phase = FREE_STAMPED;
    } else {
        thread->item = stamp(sim, HX_EV_REALLOC_BEGIN, sizeof(struct hx_ev_realloc_begin));
        thread->item->words[1] = address_of(thread->slot);
        thread->item->words[2] = t + 1;
        thread->phase = BEGIN_STAMPED;
    }
}

/* What realloc does: it fails, frees, stays, or moves, after which the old address is free. */
static void step_realloc(struct sim *sim, unsigned t)
{
    struct thread *thread = &sim->thread[t];
    uint64_t what = unit_below(sim->random, 4), freed = 0;
    thread->other = what == 3 ? pick_slot(sim, SLOT_FREE) : thread->slot;
    if (what == 1)
        freed = 1;
    if (thread->other != ADDRESSES)
        sim->slot[thread->other] = SLOT_TAKEN;
    if (freed || (thread->other != thread->slot && thread->other != ADDRESSES))
        sim->slot[thread->slot] = SLOT_FREE;
    thread->item = NULL;
    thread->phase = MOVING;
    if (what == 0 || thread->other == ADDRESSES)
        thread->other = ADDRESSES; /* failed */
    else if (freed)
        thread->other = ADDRESSES + 1;
}

static void step_end(struct sim *sim, unsigned t)
{
    struct thread *thread = &sim->thread[t];
    struct item *item = stamp(sim, HX_EV_REALLOC_END, sizeof(struct hx_ev_realloc_end));
    item->words[1] = address_of(thread->slot);
    item->words[2] = thread->other < ADDRESSES ? address_of(thread->other) : 0;
    item->words[3] = random_size(sim);
    item->words[4] = item->words[3] + 16;
    item->words[5] = HX_EV_KEY_FIRST + unit_below(sim->random, SITES);
    item->words[6] = (t + 1) | (uint64_t)(thread->other == ADDRESSES + 1) << 32;
    thread->item = item;
    thread->phase = END_STAMPED;
}

static void step(struct sim *sim)
{
    unsigned t = (unsigned)unit_below(sim->random, THREADS);
    struct thread *thread = &sim->thread[t];
    switch (thread->phase) {
    case IDLE:
        step_idle(sim, t);
        return;
    case ALLOC_STAMPED:
        publish(sim, t);
        sim->slot[thread->slot] = SLOT_OWNED;
        break;
    case FREE_STAMPED:
        publish(sim, t);
        thread->phase = FREE_PUBLISHED;
        return;
    case FREE_PUBLISHED:
        sim->slot[thread->slot] = SLOT_FREE;
        break;
    case BEGIN_STAMPED:
        publish(sim, t);
        step_realloc(sim, t);
        return;
    case MOVING:
        step_end(sim, t);
        return;
    case END_STAMPED:
        publish(sim, t);
        if (thread->other == ADDRESSES)
            sim->slot[thread->slot] = SLOT_OWNED;
        else if (thread->other < ADDRESSES)
            sim->slot[thread->other] = SLOT_OWNED;
        if (thread->other < ADDRESSES)
            sim->hidden[thread->other] = false;
        break;
    }
    thread->phase = IDLE;
}

/* --- the reader's side ------------------------------------------------------------- */

static bool give_stack(void *context, uint64_t key, uint64_t *frame, size_t max, size_t *ret_n,
                       uint64_t *ret_exact, bool *ret_cut)
{
    (void)context;
    if (key < HX_EV_KEY_FIRST || key >= HX_EV_KEY_FIRST + SITES || max < 2)
        return false;
    frame[0] = key * 16;
    frame[1] = 0x1000;
    *ret_n = 2;
    *ret_exact = 0;
    *ret_cut = false;
    return true;
}

static void give_place(void *context, uint64_t pc, struct hx_location *ret)
{
    (void)context;
    *ret = (struct hx_location){.file = 0, .vaddr = pc};
}

static uint64_t same_ns(void *context, uint64_t when)
{
    (void)context;
    return when;
}

static const struct hx_reader_source source = {
    .stack = give_stack, .locate = give_place, .to_ns = same_ns};

static hx_reader *new_reader(uint64_t sample_bytes)
{
    struct hx_reader_options options = {.sample_bytes = sample_bytes, .method = "run"};
    hx_reader *reader;
    assert_null(hx_reader_create(&source, &options, &reader));
    return reader;
}

static void feed_round(struct sim *sim, hx_reader *reader)
{
    static uint8_t bytes[EVENTS * 64];
    uint64_t until = ++sim->clock, lost_allocs = 0, lost_frees = 0;
    unsigned streams = 0;
    for (unsigned t = 0; t < THREADS; t++)
        streams += sim->stream[t].fed < sim->stream[t].n;
    if (streams < 2)
        hx_reader_one_stream(reader);
    unsigned first = (unsigned)unit_below(sim->random, THREADS);
    unsigned stride = 1 + (unsigned)unit_below(sim->random, THREADS - 1);
    for (unsigned k = 0; k < THREADS; k++) {
        struct stream *stream = &sim->stream[(first + k * stride) % THREADS];
        size_t len = 0, taken = 0, at = 0;
        for (size_t i = stream->fed; i < stream->n; i++) {
            if (!stream->item[i]->lost)
                memcpy(bytes + len, stream->item[i]->words, stream->item[i]->bytes);
            len += stream->item[i]->lost ? 0 : stream->item[i]->bytes;
        }
        assert_null(hx_reader_feed(reader, bytes, len, until, &taken));
        for (; stream->fed < stream->n; stream->fed++) {
            struct item *item = stream->item[stream->fed];
            if (HX_EV_WHEN(item->words[0]) >= until)
                break;
            at += item->lost ? 0 : item->bytes;
            item->fed = true;
        }
        assert_int_equal(taken, at);
    }
    for (size_t i = 0; i < sim->n; i++)
        if (sim->items[i].lost && sim->items[i].fed) {
            bool alloc = HX_EV_KIND(sim->items[i].words[0]) == HX_EV_ALLOC;
            lost_allocs += alloc;
            lost_frees += !alloc;
        }
    hx_reader_add_losses(reader, lost_allocs, lost_frees);
    assert_null(hx_reader_check(reader));
    assert_null(hx_reader_end_round(reader));
    assert_null(hx_reader_check(reader));
}

/* --- the same by the order of times -------------------------------------------------- */

struct state {
    struct hx_rec_block live[ADDRESSES], moving[THREADS];
    bool is_live[ADDRESSES], is_moving[THREADS], sure[ADDRESSES];
    uint64_t began[THREADS];
    struct hx_rec_costs costs[SITES];
    struct hx_rec_size sizes[SIZES]; /* the last one: HUGE_SIZE */
    uint64_t unmatched, doubtful;    /* frees of unknown blocks; reallocs of such */
};

static unsigned slot_of(uint64_t address)
{
    for (unsigned i = 0; i < ADDRESSES; i++)
        if (address_of(i) == address)
            return i;
    return ADDRESSES;
}

static struct hx_rec_size *size_of(struct state *state, uint64_t bytes)
{
    return &state->sizes[bytes == HUGE_SIZE ? SIZES - 1 : bytes];
}

static unsigned class_of(uint64_t bytes)
{
    return bytes <= 32 ? 0 : bytes <= 256 ? 1 : bytes <= 2048 ? 2 : 3;
}

static void gone(struct state *state, const struct hx_rec_block *block)
{
    state->costs[block->stack].frees++;
    state->costs[block->stack].freed_bytes += block->requested;
    state->costs[block->stack].freed_class[class_of(block->requested)] += block->requested;
    size_of(state, block->requested)->frees++;
}

/* The address was handed out since: a realloc must have freed what it had of it. */
static void release(struct state *state, uint64_t address, uint64_t when)
{
    for (unsigned t = 0; t < THREADS; t++)
        if (state->is_moving[t] && state->moving[t].address == address && state->began[t] < when) {
            gone(state, &state->moving[t]);
            state->is_moving[t] = false;
        }
}

static void came(struct state *state, const uint64_t *words, uint64_t when, bool sure)
{
    unsigned slot = slot_of(words[0]), site = (unsigned)(words[3] - HX_EV_KEY_FIRST);
    release(state, words[0], when);
    state->live[slot] = (struct hx_rec_block){.address = words[0],
                                              .requested = words[1],
                                              .usable = words[2],
                                              .born_ns = when,
                                              .stack = site};
    state->is_live[slot] = true;
    state->sure[slot] = sure;
    state->costs[site].allocs++;
    state->costs[site].alloc_bytes += words[1];
    state->costs[site].alloc_class[class_of(words[1])] += words[1];
    size_of(state, words[1])->allocs++;
}

static void end_move(struct state *state, const struct item *item)
{
    const uint64_t *words = item->words;
    unsigned t = (unsigned)(words[6] & 0xffff) - 1;
    if (!words[2] && !(words[6] >> 32)) {
        if (state->is_moving[t])
            state->live[slot_of(words[1])] = state->moving[t];
        state->is_live[slot_of(words[1])] = state->is_moving[t];
    } else if (state->is_moving[t]) {
        gone(state, &state->moving[t]);
    } else {
        release(state, words[1], state->began[t]);
    }
    state->is_moving[t] = false;
    if (words[2])
        came(state, words + 2, HX_EV_WHEN(words[0]), !item->lost);
}

static void replay(const struct sim *sim, struct state *state)
{
    memset(state, 0, sizeof *state);
    for (size_t i = 0; i < sim->n; i++) { /* they stand in the order of their times */
        const struct item *item = &sim->items[i];
        uint64_t when = HX_EV_WHEN(item->words[0]);
        if (!item->fed)
            continue;
        unsigned slot = slot_of(item->words[1]);
        switch (HX_EV_KIND(item->words[0])) {
        case HX_EV_ALLOC:
            came(state, item->words + 1, when, !item->lost);
            break;
        case HX_EV_FREE:
            release(state, item->words[1], when);
            if (state->is_live[slot])
                gone(state, &state->live[slot]);
            else
                state->unmatched++;
            state->is_live[slot] = false;
            break;
        case HX_EV_REALLOC_BEGIN:
            state->is_moving[item->words[2] - 1] = state->is_live[slot];
            state->moving[item->words[2] - 1] = state->live[slot];
            state->began[item->words[2] - 1] = when;
            state->doubtful += !state->is_live[slot];
            state->is_live[slot] = false;
            break;
        default:
            end_move(state, item);
        }
    }
    for (unsigned t = 0; t < THREADS; t++) { /* what is in a realloc counts as live */
        unsigned slot = state->is_moving[t] ? slot_of(state->moving[t].address) : ADDRESSES;
        if (slot == ADDRESSES)
            continue;
        if (state->is_live[slot])
            gone(state, &state->moving[t]);
        else
            state->live[slot] = state->moving[t];
        state->is_live[slot] = true;
    }
}

static uint32_t site_of(const struct hx_recording *recording, uint32_t stack)
{
    const struct hx_rec_place *place =
        &recording->places.v[recording->stack_places.v[recording->stacks.v[stack].first]];
    return (uint32_t)((place->vaddr + 1) / 16 - HX_EV_KEY_FIRST);
}

static void compare(const struct state *state, const struct hx_recording *recording)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < ADDRESSES; i++) {
        const struct hx_rec_block *block = hx_recording_block(recording, address_of(i));
        assert_int_equal(block != NULL, state->is_live[i]);
        if (!block)
            continue;
        n++;
        assert_int_equal(block->requested, state->live[i].requested);
        assert_int_equal(block->usable, state->live[i].usable);
        assert_int_equal(block->born_ns, state->live[i].born_ns);
        assert_int_equal(site_of(recording, block->stack), state->live[i].stack);
    }
    assert_int_equal(n, recording->n_blocks);
    for (uint32_t i = 0; i < recording->stacks.n; i++) {
        const struct hx_rec_costs *is = &recording->costs.v[i];
        const struct hx_rec_costs *must = &state->costs[site_of(recording, i)];
        assert_int_equal(is->allocs, must->allocs);
        assert_int_equal(is->alloc_bytes, must->alloc_bytes);
        assert_int_equal(is->frees, must->frees);
        assert_int_equal(is->freed_bytes, must->freed_bytes);
        assert_int_equal(is->live, must->allocs - must->frees);
        assert_memory_equal(is->alloc_class, must->alloc_class, sizeof is->alloc_class);
        assert_memory_equal(is->freed_class, must->freed_class, sizeof is->freed_class);
    }
    size_t at = 0;
    for (uint64_t i = 0; i < SIZES; i++) {
        if (!state->sizes[i].allocs)
            continue;
        assert_true(at < recording->sizes.n);
        const struct hx_rec_size *is = &recording->sizes.v[at++];
        uint64_t size = i == SIZES - 1 ? HUGE_SIZE : i;
        assert_int_equal(is->size, size);
        assert_int_equal(is->allocs, state->sizes[i].allocs);
        assert_int_equal(is->frees, state->sizes[i].frees);
        assert_int_equal(is->alloc_bytes, is->allocs * size);
        assert_int_equal(is->freed_bytes, is->frees * size);
    }
    assert_int_equal(at, recording->sizes.n);
}

/* A child begins with the same blocks, by the same stacks. */
static void expect_child(const hx_reader *reader, const struct hx_recording *parent)
{
    HX_RECORDING struct hx_recording *recording = NULL;
    hx_reader *child = new_reader(0);
    size_t bytes, taken;
    void *events;
    assert_null(hx_reader_inherit(reader, &events, &bytes));
    hx_reader_one_stream(child);
    assert_null(hx_reader_feed(child, events, bytes, UINT64_MAX, &taken));
    assert_int_equal(taken, bytes);
    assert_null(hx_reader_end_round(child));
    assert_null(hx_reader_check(child));
    assert_null(hx_reader_freeze(child, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    assert_int_equal(recording->n_blocks, parent->n_blocks);
    for (uint64_t i = 0; i < parent->n_blocks; i++) {
        const struct hx_rec_block *is = &recording->block[i], *must = &parent->block[i];
        assert_int_equal(is->address, must->address);
        assert_int_equal(is->requested, must->requested);
        assert_int_equal(is->usable, must->usable);
        assert_int_equal(is->born_ns, must->born_ns);
        assert_int_equal(site_of(recording, is->stack), site_of(parent, must->stack));
    }
    assert_int_equal(recording->unmatched_frees + recording->implied_frees, 0);
    hx_reader_destroy(child);
    free(events);
}

static void run(struct unit_random *random, unsigned lose, unsigned hide)
{
    static struct sim sim;
    static struct state state;
    sim = (struct sim){.random = random, .clock = 1000, .lose_percent = lose, .hide_percent = hide};
    hx_reader *reader = new_reader(0);
    unsigned often = 2 + (unsigned)unit_below(random, 60);
    while (sim.n < EVENTS) {
        step(&sim);
        if (unit_below(random, often))
            continue;
        feed_round(&sim, reader);
        HX_RECORDING struct hx_recording *recording = NULL;
        assert_null(hx_reader_freeze(reader, &recording));
        hx_recording_sort(recording);
        assert_null(hx_recording_check(recording));
        if (unit_below(random, 8) == 0)
            expect_child(reader, recording);
        replay(&sim, &state);
        if (!lose) {
            compare(&state, recording);
            assert_in_range(recording->unmatched_frees, state.unmatched,
                            state.unmatched + state.doubtful);
            assert_int_equal(recording->implied_frees, 0);
            continue;
        }
        for (unsigned i = 0; i < ADDRESSES; i++) /* nothing that was seen to live is missing */
            if (state.is_live[i] && state.sure[i])
                assert_non_null(hx_recording_block(recording, address_of(i)));
        if (recording->lost_frees)
            assert_true(recording->upper_bounds);
    }
    hx_reader_destroy(reader);
}

static void test_rounds(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_rounds");
    for (size_t i = 0; i < unit_rounds(300); i++)
        run(&random, 0, 0);
}

static void test_unknown_blocks(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_unknown_blocks");
    for (size_t i = 0; i < unit_rounds(300); i++)
        run(&random, 0, 30);
}

static void test_losses(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_losses");
    for (size_t i = 0; i < unit_rounds(100); i++)
        run(&random, 1 + (unsigned)unit_below(&random, 20), 0);
}

/* Random words with the looks of events, cut anywhere. */
static void test_hostile(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_hostile");
    static uint64_t words[4096];
    hx_reader *reader = new_reader(0);
    for (size_t i = 0; i < unit_rounds(300); i++) {
        size_t n = 1 + unit_below(&random, sizeof words / sizeof *words), taken;
        for (size_t k = 0; k < n; k++) {
            uint64_t what = unit_below(&random, 8);
            words[k] = what < 3 ? HX_EV_HEAD(1 + unit_below(&random, 15), unit_below(&random, 999))
                       : what < 5 ? unit_below(&random, 64)
                       : what < 6 ? address_of((unsigned)unit_below(&random, ADDRESSES))
                                  : unit_random(&random) >> unit_below(&random, 64);
        }
        size_t odd = unit_below(&random, 4) ? 0 : unit_below(&random, 8), at = odd;
        while (at < n * 8) {
            assert_null(hx_reader_feed(reader, (uint8_t *)words + at, n * 8 - at, 900, &taken));
            at += taken + 8; /* whatever stopped it is skipped */
        }
        if (unit_below(&random, 3) == 0)
            assert_null(hx_reader_end_round(reader));
        assert_null(hx_reader_check(reader));
    }
    assert_null(hx_reader_end_round(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    hx_reader_destroy(reader);
}

/* Many blocks: the table grows and shrinks, and no block costs too much. */
static void test_many(void **unused)
{
    (void)unused;
    hx_reader *reader = new_reader(0);
    struct hx_reader_figures figures;
    size_t n = unit_rounds(400000), taken;
    for (size_t i = 0; i < n; i++) {
        struct hx_ev_alloc event = {HX_EV_HEAD(HX_EV_ALLOC, i + 1), 0x10000 + i * 48, i % 500, 0,
                                    HX_EV_KEY_FIRST + i % SITES};
        assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
        if (i % 4096 != 4095 || i < 100000)
            continue;
        hx_reader_figures(reader, &figures);
        assert_true(figures.memory_bytes < 64 * figures.live);
    }
    assert_null(hx_reader_end_round(reader));
    assert_null(hx_reader_check(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    assert_int_equal(recording->n_blocks, n);
    for (size_t i = 0; i < n; i++) {
        struct hx_ev_free event = {HX_EV_HEAD(HX_EV_FREE, n + i + 1), 0x10000 + i * 48};
        assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
        if (i % 4096 == 0)
            assert_null(hx_reader_end_round(reader));
    }
    assert_null(hx_reader_end_round(reader));
    hx_reader_figures(reader, &figures);
    assert_int_equal(figures.live, 0);
    assert_int_equal(figures.frees, n);
    assert_null(hx_reader_check(reader));
    hx_reader_destroy(reader);
}

/* A Poisson sample by bytes, taken as a program would: the estimates hit the truth within what
 * their own variance says. */
static void test_sampling(void **unused)
{
    (void)unused;
    struct unit_random random = {4711};
    const double mean = 4096;
    hx_reader *reader = new_reader((uint64_t)mean);
    double left = mean, truth = 0, live = 0;
    size_t n = 200000, taken;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = 1 + unit_below(&random, unit_below(&random, 10) ? 300 : 20000);
        truth += (double)size;
        live += i % 2 ? (double)size : 0;
        left -= (double)size;
        if (left > 0)
            continue;
        left = -mean * log(((double)(unit_random(&random) >> 11) + 0.5) * 0x1p-53);
        struct hx_ev_alloc event = {HX_EV_HEAD(HX_EV_ALLOC, i * 2 + 1), 0x10000 + i * 16, size, 0,
                                    HX_EV_KEY_FIRST};
        struct hx_ev_free freed = {HX_EV_HEAD(HX_EV_FREE, i * 2 + 2), 0x10000 + i * 16};
        assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
        if (i % 2 == 0)
            assert_null(hx_reader_feed(reader, &freed, sizeof freed, UINT64_MAX, &taken));
    }
    assert_null(hx_reader_end_round(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    hx_recording_sort(recording);
    const struct hx_rec_costs *costs = &recording->costs.v[0];
    double off = (double)costs->alloc_bytes - truth, off_live = (double)costs->live_bytes - live;
    double off_count = (double)costs->allocs - (double)n;
    assert_true(fabs(off) < 4 * sqrt(costs->alloc_variance));
    assert_true(sqrt(costs->alloc_variance) < 0.02 * truth);
    assert_true(fabs(off_live) < 4 * sqrt(costs->live_variance));
    assert_true(fabs(off_count) < 0.05 * (double)n);
    assert_null(hx_recording_check((hx_recording_sort(recording), recording)));
    double sized = 0, sized_freed = 0;
    for (size_t i = 0; i < recording->sizes.n; i++) {
        sized += (double)recording->sizes.v[i].alloc_bytes;
        sized_freed += (double)recording->sizes.v[i].freed_bytes;
    }
    assert_true(fabs(sized - (double)costs->alloc_bytes) < 1e-3 * truth);
    assert_true(fabs(sized_freed - (double)costs->freed_bytes) < 1e-3 * truth);
    hx_reader_destroy(reader);
}

/* --- sizes ----------------------------------------------------------------------- */

/* More sizes than there is room for: the first ones stay exact, the rest is one row. */
static void test_many_sizes(void **unused)
{
    (void)unused;
    hx_reader *reader = new_reader(0);
    size_t n = HX_SIZES_LARGE + 50, taken;
    uint64_t rest = 0, when = 1;
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < n; i++) {
            uint64_t size = i == n - 1 ? UINT64_MAX : HX_SIZE_EXACT + 1 + i * 7;
            struct hx_ev_alloc event = {HX_EV_HEAD(HX_EV_ALLOC, when++), 0x10000 + i * 16, size, 0,
                                        HX_EV_KEY_FIRST};
            struct hx_ev_free freed = {HX_EV_HEAD(HX_EV_FREE, when++), 0x10000 + i * 16};
            assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
            if (round < 2)
                assert_null(hx_reader_feed(reader, &freed, sizeof freed, UINT64_MAX, &taken));
            rest += i >= HX_SIZES_LARGE ? size : 0;
        }
    assert_null(hx_reader_end_round(reader));
    assert_null(hx_reader_check(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    assert_int_equal(recording->sizes.n, HX_SIZES_LARGE + 1);
    for (size_t i = 0; i < recording->sizes.n; i++) {
        const struct hx_rec_size *size = &recording->sizes.v[i];
        bool last = i == HX_SIZES_LARGE;
        assert_int_equal(size->size, last ? UINT64_MAX : HX_SIZE_EXACT + 1 + i * 7);
        assert_int_equal(size->allocs, last ? 150 : 3);
        assert_int_equal(size->frees, last ? 100 : 2);
        assert_int_equal(size->alloc_bytes, last ? rest : 3 * size->size);
    }
    hx_reader_destroy(reader);
}

/* So many requests of one stack that sums of them are carried, by sizes at the bounds of classes.
 */
static void test_carried_sums(void **unused)
{
    (void)unused;
    static const uint64_t sizes[] = {0, 32, 33, 256, 257, 1024, 1025, 2048, 2049, UINT32_MAX};
    hx_reader *reader = new_reader(0);
    uint64_t bytes[HX_SIZE_CLASSES] = {0}, sum = 0;
    size_t n = 20000, taken;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = i < 5000 ? 2048 : sizes[i / 7 % (sizeof sizes / sizeof *sizes)];
        struct hx_ev_alloc event = {HX_EV_HEAD(HX_EV_ALLOC, i * 2 + 1), 0x10000, size, 0,
                                    HX_EV_KEY_FIRST};
        struct hx_ev_free freed = {HX_EV_HEAD(HX_EV_FREE, i * 2 + 2), 0x10000};
        hx_reader_one_stream(reader);
        assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
        assert_null(hx_reader_feed(reader, &freed, sizeof freed, UINT64_MAX, &taken));
        bytes[class_of(size)] += size;
        sum += size;
    }
    assert_null(hx_reader_end_round(reader));
    assert_null(hx_reader_check(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    const struct hx_rec_costs *costs = &recording->costs.v[0];
    assert_int_equal(costs->allocs, n);
    assert_int_equal(costs->frees, n);
    assert_int_equal(costs->alloc_bytes, sum);
    assert_int_equal(costs->freed_bytes, sum);
    assert_memory_equal(costs->alloc_class, bytes, sizeof bytes);
    assert_memory_equal(costs->freed_class, bytes, sizeof bytes);
    hx_reader_destroy(reader);
}

/* --- regions, entered stacks and entries -------------------------------------------- */

#define KEYS   60
#define WORDS  9
#define NO_KEY (HX_EV_KEY_FIRST + KEYS) /* and above: nobody knows these */

/* The stacks of a program: word 0 of each is its own, so that no two are the same. */
struct stacks {
    uint64_t word[KEYS][WORDS];
    size_t n[KEYS];
    unsigned asked;
};

static bool give_words(void *context, uint64_t key, uint64_t *frame, size_t max, size_t *ret_n,
                       uint64_t *ret_exact, bool *ret_cut)
{
    struct stacks *stacks = context;
    stacks->asked++;
    if (key < HX_EV_KEY_FIRST || key >= NO_KEY)
        return false;
    *ret_n = stacks->n[key - HX_EV_KEY_FIRST];
    assert_true(*ret_n <= max);
    memcpy(frame, stacks->word[key - HX_EV_KEY_FIRST], *ret_n * sizeof *frame);
    *ret_exact = UINT64_MAX;
    *ret_cut = false;
    return true;
}

/* Regions of even numbers lie in a file, those above 5 are not known. */
static bool give_centre(void *context, uint64_t word, struct hx_ev_centre *ret)
{
    (void)context;
    uint64_t number = HX_EV_VALUE(word);
    if (number > 5)
        return false;
    char text[64];
    int n = snprintf(text, sizeof text, "region %d%cfunction%cfile.c", (int)number, 0, 0);
    *ret = (struct hx_ev_centre){
        .word = word, .address = 0x9000 + number, .line = 7 + (uint32_t)number, .n = (uint32_t)n};
    memcpy(ret->text, text, (size_t)n);
    return true;
}

static void place_even(void *context, uint64_t pc, struct hx_location *ret)
{
    (void)context;
    *ret = (struct hx_location){.file = pc % 2 ? UINT32_MAX : 0, .vaddr = pc};
}

static hx_reader *stacks_reader(struct stacks *stacks, bool asks)
{
    struct hx_reader_source with = {.stack = asks ? give_words : NULL,
                                    .centre = asks ? give_centre : NULL,
                                    .locate = place_even,
                                    .context = stacks};
    struct hx_reader_options options = {.method = "run"};
    hx_reader *reader;
    assert_null(hx_reader_create(&with, &options, &reader));
    return reader;
}

/* `rings`: stacks may enter any other one, themselves too. */
static void random_stacks(struct unit_random *random, struct stacks *stacks, bool rings)
{
    stacks->asked = 0;
    for (size_t key = 0; key < KEYS; key++) {
        stacks->n[key] = 1 + unit_below(random, WORDS);
        for (size_t i = 0; i < stacks->n[key]; i++) {
            uint64_t what = i ? unit_below(random, 8) : 7;
            uint64_t other = unit_below(random, rings ? KEYS + 3 : key + 1);
            stacks->word[key][i] =
                what < 2   ? HX_EV_REGION | unit_below(random, 8)
                : what < 4 ? HX_EV_DEFERRED |
                                 (other == key && !rings ? NO_KEY + 1 : HX_EV_KEY_FIRST + other)
                           : 0x400000 + unit_below(random, 64);
        }
        stacks->word[key][0] = 0x500000 + key;
    }
}

static void expect_region(const struct hx_rec_place *place, uint64_t number)
{
    char label[32] = "<unknown region>";
    if (number < 6)
        snprintf(label, sizeof label, "region %d", (int)number);
    assert_int_equal(place->kind, HX_REC_REGION);
    assert_int_equal(place->n_lines, 1);
    assert_string_equal(place->lines->function, label);
    if (number >= 6)
        return;
    assert_int_equal(place->vaddr, 0x9000 + number);
    assert_int_equal(place->file, number % 2 ? UINT32_MAX : 0);
    assert_string_equal(place->lines->source, "file.c");
    assert_int_equal(place->lines->line, 7 + number);
}

/* Is that stack the one of the key? What it enters is a stack with a lower number: that it is the
 * right one shows in its first word, and it has its own turn. */
static void expect_stack(const struct stacks *stacks, const struct hx_recording *recording,
                         uint32_t number, size_t key, bool rings)
{
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    bool replaced = false; /* by a stack that is entered further inside */
    assert_int_equal(stack->n, stacks->n[key]);
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct hx_rec_place *place =
            &recording->places.v[recording->stack_places.v[stack->first + i]];
        uint64_t word = stacks->word[key][i], other = HX_EV_VALUE(word) - HX_EV_KEY_FIRST;
        if (HX_EV_TAG(word) == HX_EV_REGION) {
            expect_region(place, HX_EV_VALUE(word));
        } else if (HX_EV_TAG(word) == HX_EV_DEFERRED) {
            assert_int_equal(place->kind, HX_REC_DEFERRED);
            if (place->stack == HX_NO_STACK) {
                assert_true(rings || replaced || other >= KEYS);
                continue;
            }
            assert_false(replaced);
            replaced = true;
            assert_true(place->stack < number);
            const struct hx_rec_stack *entered = &recording->stacks.v[place->stack];
            uint32_t first = recording->stack_places.v[entered->first];
            assert_int_equal(recording->places.v[first].vaddr, 0x500000 + other);
        } else {
            assert_int_equal(place->kind, HX_REC_CODE);
            assert_int_equal(place->vaddr, word);
        }
    }
}

static void feed_word(hx_reader *reader, enum hx_event_kind kind, uint64_t word)
{
    size_t taken;
    struct hx_ev_word event = {HX_EV_HEAD(kind, 1), word};
    assert_null(hx_reader_feed(reader, &event, sizeof event, UINT64_MAX, &taken));
    assert_int_equal(taken, sizeof event);
}

static void feed_stack(hx_reader *reader, const struct stacks *stacks, size_t key)
{
    size_t taken, bytes = sizeof(struct hx_ev_stack) + stacks->n[key] * 8;
    uint64_t buffer[sizeof(struct hx_ev_stack) / 8 + WORDS];
    struct hx_ev_stack *event = (struct hx_ev_stack *)buffer;
    *event = (struct hx_ev_stack){.head = HX_EV_HEAD(HX_EV_STACK, 1),
                                  .key = HX_EV_KEY_FIRST + key,
                                  .n = (uint32_t)stacks->n[key],
                                  .exact = UINT64_MAX};
    memcpy(event->frame, stacks->word[key], stacks->n[key] * 8);
    assert_null(hx_reader_feed(reader, event, bytes, UINT64_MAX, &taken));
    assert_int_equal(taken, bytes);
}

static void feed_centre(hx_reader *reader, uint64_t number)
{
    size_t taken;
    uint64_t buffer[(sizeof(struct hx_ev_centre) + HX_EV_CENTRE_TEXT) / 8] = {0};
    struct hx_ev_centre *event = (struct hx_ev_centre *)buffer;
    if (!give_centre(NULL, HX_EV_REGION | number, event))
        return;
    event->head = HX_EV_HEAD(HX_EV_CENTRE, 1);
    size_t bytes = sizeof *event + (event->n + 7) / 8 * 8;
    assert_null(hx_reader_feed(reader, event, bytes, UINT64_MAX, &taken));
    assert_int_equal(taken, bytes);
}

static void run_stacks(struct unit_random *random, bool rings, bool asks)
{
    static struct stacks stacks;
    uint64_t entries[KEYS] = {0}, unknown = 0, unbalanced = 0;
    random_stacks(random, &stacks, rings);
    hx_reader *reader = stacks_reader(&stacks, asks);
    for (uint64_t i = 0; i < 8 && !asks; i++)
        feed_centre(reader, i);
    for (size_t key = 0; key < KEYS && !asks; key++)
        feed_stack(reader, &stacks, key);
    for (size_t i = 0; i < 100; i++) {
        size_t key = unit_below(random, KEYS + 1);
        feed_word(reader, HX_EV_ENTRY, HX_EV_KEY_FIRST + key);
        *(key < KEYS ? &entries[key] : &unknown) += 1;
        feed_word(reader, HX_EV_UNBALANCED, key);
        unbalanced += key;
        if (!asks && unit_below(random, 4) == 0)
            feed_stack(reader, &stacks, unit_below(random, KEYS));
    }
    assert_null(hx_reader_check(reader));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    assert_null(hx_recording_check(recording));
    assert_int_equal(recording->unbalanced_pops, unbalanced);
    for (uint32_t i = 0; i < recording->stacks.n; i++) {
        if (!recording->stacks.v[i].n) {
            assert_int_equal(recording->costs.v[i].entries, unknown);
            continue;
        }
        uint32_t first = recording->stack_places.v[recording->stacks.v[i].first];
        size_t key = recording->places.v[first].vaddr - 0x500000;
        expect_stack(&stacks, recording, i, key, rings);
        if (!rings) /* in a ring one key may have had two stacks, by where the ring was cut */
            assert_int_equal(recording->costs.v[i].entries, entries[key]);
    }
    hx_reader_destroy(reader);
}

static void test_regions(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_regions");
    for (size_t i = 0; i < unit_rounds(200); i++)
        run_stacks(&random, i % 4 > 1, i % 2);
}

/* Work that submits itself again for ever, and the line that it has. */
static void test_long_chain(void **unused)
{
    (void)unused;
    static struct stacks stacks;
    hx_reader *reader = stacks_reader(&stacks, true);
    for (size_t key = 0; key < KEYS; key++) {
        stacks.n[key] = 3;
        stacks.word[key][0] = 0x500000 + key;
        stacks.word[key][1] = HX_EV_DEFERRED | (key ? HX_EV_KEY_FIRST + key - 1 : 0);
        stacks.word[key][2] = 0x400000;
    }
    feed_word(reader, HX_EV_ENTRY, HX_EV_KEY_FIRST + KEYS - 1);
    for (uint64_t more = 0; more < 20; more++) { /* and on, by stacks that only events bring */
        uint64_t buffer[sizeof(struct hx_ev_stack) / 8 + 1];
        struct hx_ev_stack *event = (struct hx_ev_stack *)buffer;
        size_t taken;
        *event =
            (struct hx_ev_stack){.head = HX_EV_HEAD(HX_EV_STACK, 1), .key = NO_KEY + more, .n = 1};
        event->frame[0] = HX_EV_DEFERRED | (NO_KEY + more - 1);
        assert_null(hx_reader_feed(reader, buffer, sizeof buffer, UINT64_MAX, &taken));
    }
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_reader_freeze(reader, &recording));
    assert_null(hx_recording_check(recording));
    assert_in_range(recording->lost_captures, 2, 3);
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_recording_label(recording, 2, 9, &text);
    assert_string_equal(hx_text_str(&text), "0x500002 < 0x500001 < 0x500000 < 0x400000");
    hx_reader_destroy(reader);
}

/* Blocks in any order, in address spaces of several looks, come out sorted and whole. */
static void test_sort(void **unused)
{
    (void)unused;
    struct unit_random random = unit_random_begin("test_sort");
    for (size_t i = 0; i < unit_rounds(60); i++) {
        HX_RECORDING struct hx_recording *recording = NULL;
        uint64_t n = i == 7 ? 1100000 : unit_below(&random, (uint64_t)1 << unit_below(&random, 17));
        uint64_t spread = unit_below(&random, 36), sum = 0;
        assert_null(hx_recording_create(&recording));
        assert_null(hx_big_reserve(&recording->block_mem, n * sizeof *recording->block));
        recording->block = recording->block_mem.base;
        recording->n_blocks = n;
        for (uint64_t k = 0; k < n; k++) {
            uint64_t far = k % 3 ? 0 : unit_below(&random, 4) << spread;
            recording->block[k] = (struct hx_rec_block){
                .address = (k + far * n) * 16 + far, .requested = k, .stack = HX_NO_STACK};
            struct hx_rec_block *other = &recording->block[unit_below(&random, k + 1)];
            struct hx_rec_block one = *other;
            *other = recording->block[k];
            recording->block[k] = one;
        }
        hx_recording_sort(recording);
        assert_null(hx_recording_check(recording));
        for (uint64_t k = 0; k < n; k++)
            sum += recording->block[k].requested;
        assert_int_equal(sum, n * (n - (n != 0)) / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),       cmocka_unit_test(test_unknown_blocks),
        cmocka_unit_test(test_losses),       cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_many),         cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_sort),         cmocka_unit_test(test_many_sizes),
        cmocka_unit_test(test_regions),      cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_carried_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
