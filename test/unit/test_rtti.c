/* test_rtti.c - types of objects by RTTI, in memory drawn by hand: what proves a class, which
 * word of an object counts, and memory that lies. */
#include "unit.h"

#include "config.h"

#include "attach/types/rtti.h"
#include "base/vec.h"

enum { MODULE_BYTES = 1 << 16, HEAP_BYTES = 1 << 16, OBJECTS_MAX = 4096 };

#define MODULE 0x555500400000u /* what a loader relocated */
#define RODATA 0x555500800000u /* what is only in the file */
#define HEAP   0x7ffff0000000u

enum kind { PLAIN, SINGLE, MULTIPLE };

struct world {
    uint64_t module[MODULE_BYTES / 8], rodata[MODULE_BYTES / 8], heap[HEAP_BYTES / 8];
    uint64_t module_used, rodata_used, heap_used; /* bytes */
    uint64_t kind[3];                             /* vtables of the typeinfo classes */
    uint64_t addr[OBJECTS_MAX], size[OBJECTS_MAX];
    struct hx_range range[2];
    struct hx_snapshot *snapshot;
};

static bool read_file(void *context, uint64_t addr, void *dst, size_t len)
{
    struct world *world = context;
    if (addr < RODATA || addr - RODATA > MODULE_BYTES || len > RODATA + MODULE_BYTES - addr)
        return false;
    memcpy(dst, (const char *)world->rodata + (addr - RODATA), len);
    return true;
}

static uint64_t put_name(struct world *world, const char *name)
{
    uint64_t at = world->rodata_used;
    size_t n = strlen(name) + 1;
    assert_true(at + n <= MODULE_BYTES);
    memcpy((char *)world->rodata + at, name, n);
    world->rodata_used += n;
    return RODATA + at;
}

static uint64_t *module_word(struct world *world, uint64_t addr)
{
    return &world->module[(addr - MODULE) / 8];
}

static uint64_t put_words(struct world *world, const uint64_t *words, size_t n)
{
    uint64_t at = world->module_used;
    assert_true(at + n * 8 <= MODULE_BYTES);
    memcpy((char *)world->module + at, words, n * 8);
    world->module_used += n * 8;
    return MODULE + at;
}

static uint64_t put_info(struct world *world, enum kind kind, const char *name)
{
    return put_words(world, (uint64_t[]){world->kind[kind], put_name(world, name)}, 2);
}

/* The address point of a new vtable. */
static uint64_t put_vtable(struct world *world, int64_t top, uint64_t info)
{
    return put_words(world, (uint64_t[]){(uint64_t)top, info, MODULE, MODULE + 16}, 4) + 16;
}

static uint64_t put_class(struct world *world, const char *name)
{
    return put_vtable(world, 0, put_info(world, SINGLE, name));
}

/* The typeinfo classes: each is described by a typeinfo of kind SINGLE. */
static void put_kinds(struct world *world, const char *const names[3])
{
    for (int i = 0; i < 3; i++) {
        uint64_t info = put_info(world, SINGLE, names[i]);
        world->kind[i] = put_vtable(world, 0, info);
    }
}

static void setup(struct world *world)
{
    static const char *const names[3] = {"N10__cxxabiv117__class_type_infoE",
                                         "N10__cxxabiv120__si_class_type_infoE",
                                         "*N10__cxxabiv121__vmi_class_type_infoE"};
    memset(world, 0, sizeof *world);
    put_words(world, (uint64_t[]){0, 0}, 2);
    put_kinds(world, names);
    world->range[0] = (struct hx_range){MODULE, MODULE + MODULE_BYTES};
    world->range[1] = (struct hx_range){RODATA, RODATA + MODULE_BYTES};
    assert_null(hx_snapshot_create(&world->snapshot));
    struct hx_image *image = &world->snapshot->image;
    image->span = calloc(3, sizeof *image->span);
    assert_non_null(image->span);
    image->span[0] =
        (struct hx_span){MODULE, MODULE + MODULE_BYTES, (const uint8_t *)world->module};
    /* the heap in two spans that adjoin */
    image->span[1] = (struct hx_span){HEAP, HEAP + 4096, (const uint8_t *)world->heap};
    image->span[2] =
        (struct hx_span){HEAP + 4096, HEAP + HEAP_BYTES, (const uint8_t *)world->heap + 4096};
    image->n = 3;
    world->snapshot->graph.addr = world->addr;
    world->snapshot->graph.size = world->size;
}

/* A block with the usable size that glibc gives for a request. */
static hx_obj put_block(struct world *world, uint64_t request, const uint64_t *words, size_t n)
{
    struct hx_graph *graph = &world->snapshot->graph;
    uint64_t usable = request <= 24 ? 24 : (request + 7) / 16 * 16 + 8;
    assert_true(graph->n < OBJECTS_MAX && world->heap_used + usable + 8 <= HEAP_BYTES);
    graph->addr[graph->n] = HEAP + world->heap_used;
    graph->size[graph->n] = usable;
    memcpy((char *)world->heap + world->heap_used, words, n * 8);
    world->heap_used += usable + 8;
    return graph->n++;
}

#define BLOCK(world, request, ...)                                                                 \
    put_block(world, request, (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

static void look(struct world *world, unsigned threads)
{
    struct hx_rtti_source source = {
        .range = world->range, .n_ranges = 2, .read = read_file, .context = world};
    assert_null(hx_rtti(world->snapshot, &source, threads, NULL));
    for (size_t i = 1; i < world->snapshot->types.n; i++)
        assert_true(strcmp(world->snapshot->types.v[i - 1].name, world->snapshot->types.v[i].name) <
                    0);
}

static void teardown(struct world *world)
{
    world->snapshot->graph.addr = world->snapshot->graph.size = NULL;
    hx_snapshot_destroy(world->snapshot);
}

static const char *type_name(const struct world *world, hx_obj object)
{
    const struct hx_snapshot *snapshot = world->snapshot;
    assert_non_null(snapshot->graph.type);
    uint32_t type = snapshot->graph.type[object];
    if (type == HX_NO_TYPE)
        return "-";
    assert_true(type < snapshot->types.n);
    return snapshot->types.v[type].name;
}

static const char *confidence(const struct world *world, const char *name)
{
    for (size_t i = 0; i < world->snapshot->types.n; i++)
        if (strcmp(world->snapshot->types.v[i].name, name) == 0)
            return hx_confidence_name(world->snapshot->types.v[i].confidence);
    return "-";
}

static struct world world;

static void test_first_word(void **state)
{
    (void)state;
    setup(&world);
    uint64_t node = put_class(&world, "Node"),
             plain = put_vtable(&world, 0, put_info(&world, PLAIN, "Plain"));
    uint64_t diamond = put_vtable(&world, 0, put_info(&world, MULTIPLE, "*Diamond"));
    uint64_t without = put_vtable(&world, 0, 0);
    hx_obj a = BLOCK(&world, 16, node, 1), b = BLOCK(&world, 40, plain, node),
           c = BLOCK(&world, 24, diamond), d = BLOCK(&world, 24, without),
           e = BLOCK(&world, 24, 0, 0), f = BLOCK(&world, 24, node + 8),
           g = BLOCK(&world, 24, node - 8), h = BLOCK(&world, 16, node);
    look(&world, 1);
    assert_string_equal(type_name(&world, a), "Node");
    assert_string_equal(type_name(&world, b), "Plain");
    assert_string_equal(type_name(&world, c), "Diamond");
    assert_string_equal(type_name(&world, d), "-");
    assert_string_equal(type_name(&world, e), "-");
    assert_string_equal(type_name(&world, f), "-");
    assert_string_equal(type_name(&world, g), "-");
    assert_string_equal(type_name(&world, h), "Node");
    assert_int_equal(world.snapshot->types.n, 3);
    assert_string_equal(confidence(&world, "Node"), "certain");
    teardown(&world);
}

static void test_nothing(void **state)
{
    (void)state;
    setup(&world);
    look(&world, 2);
    assert_null(world.snapshot->graph.type);
    hx_obj a = BLOCK(&world, 24, 1, 2, 3);
    struct hx_rtti_source none = {0};
    assert_null(hx_rtti(world.snapshot, &none, 1, NULL));
    assert_string_equal(type_name(&world, a), "-");
    assert_int_equal(world.snapshot->types.n, 0);
    teardown(&world);
}

static void test_arrays(void **state)
{
    (void)state;
    setup(&world);
    uint64_t t = put_class(&world, "T"), u = put_class(&world, "U");
    /* 3 elements of 16 bytes; of 24 with another class as second; a count that does not fit */
    hx_obj three = BLOCK(&world, 8 + 48, 3, t, 0, t, 0, t, 0);
    hx_obj mixed = BLOCK(&world, 8 + 48, 3, t, 0, u, 0, t, 0);
    hx_obj unfit = BLOCK(&world, 8 + 48, 5, u, 0, u, 0, u, 0);
    hx_obj huge = BLOCK(&world, 8 + 48, UINT64_MAX / 16, u, 0, u, 0, u, 0);
    hx_obj one = BLOCK(&world, 8 + 16, 1, u, 0);
    hx_obj zero = BLOCK(&world, 8 + 16, 0, u, 0);
    /* alignment 16: 8 bytes of nothing before the count */
    hx_obj aligned = BLOCK(&world, 16 + 64, 77, 2, u, 0, 0, 0, u);
    hx_obj odd = BLOCK(&world, 16 + 48, 77, 2, u, 0, 0, u); /* elements of 24: no alignment */
    for (uint64_t n = 1; n < 40; n++)                       /* every size of an element */
        for (uint64_t element = 8; element <= 64; element += 8) {
            uint64_t words[1 + 40 * 8] = {n};
            if (world.heap_used + 8 + n * element + 32 > HEAP_BYTES)
                continue;
            for (uint64_t k = 0; k < n; k++)
                words[1 + k * element / 8] = t;
            put_block(&world, 8 + n * element, words, 1 + n * element / 8);
        }
    look(&world, 2);
    assert_string_equal(type_name(&world, three), "T[]");
    assert_string_equal(type_name(&world, mixed), "T");
    assert_string_equal(type_name(&world, unfit), "U");
    assert_string_equal(type_name(&world, huge), "U");
    assert_string_equal(type_name(&world, one), "U[]");
    assert_string_equal(type_name(&world, zero), "U");
    assert_string_equal(type_name(&world, aligned), "U[]");
    assert_string_equal(type_name(&world, odd), "U");
    assert_true(world.snapshot->graph.n > 100);
    for (hx_obj i = odd + 1; i < world.snapshot->graph.n; i++)
        assert_string_equal(type_name(&world, i), "T[]");
    assert_string_equal(confidence(&world, "T[]"), "certain");
    assert_string_equal(confidence(&world, "T"), "likely");
    teardown(&world);
}

static void test_later_words(void **state)
{
    (void)state;
    setup(&world);
    uint64_t info = put_info(&world, MULTIPLE, "Both");
    uint64_t first = put_vtable(&world, 0, info), second = put_vtable(&world, -16, info);
    uint64_t last[HX_RTTI_WORDS + 1] = {0};
    hx_obj whole = BLOCK(&world, 32, first, 0, second);
    hx_obj base = BLOCK(&world, 32, 7, 7, second);           /* its top is the block's */
    hx_obj shifted = BLOCK(&world, 32, 7, second);           /* its top is before the block */
    hx_obj secondary = BLOCK(&world, 32, second, 7);         /* the same */
    hx_obj both = BLOCK(&world, 40, second, 7, 7, first);    /* and an object further on */
    hx_obj node = BLOCK(&world, 40, HEAP, HEAP + 64, first); /* of a list */
    last[HX_RTTI_WORDS - 1] = first;
    hx_obj exception = put_block(&world, 200, last, HX_RTTI_WORDS);
    last[HX_RTTI_WORDS - 1] = 0;
    last[HX_RTTI_WORDS] = first;
    hx_obj beyond = put_block(&world, 200, last, HX_RTTI_WORDS + 1);
    last[HX_RTTI_WORDS] = 0;
    last[3] = first;
    hx_obj behind = put_block(&world, 24, last, 3); /* the vtable is the next block's */
    BLOCK(&world, 24, first);
    look(&world, 1);
    assert_string_equal(type_name(&world, whole), "Both");
    assert_string_equal(type_name(&world, base), "Both");
    assert_string_equal(type_name(&world, shifted), "-");
    assert_string_equal(type_name(&world, secondary), "-");
    assert_string_equal(type_name(&world, both), "Both");
    assert_string_equal(type_name(&world, node), "Both");
    assert_string_equal(type_name(&world, exception), "Both");
    assert_string_equal(type_name(&world, beyond), "-");
    assert_string_equal(type_name(&world, behind), "-");
    assert_string_equal(confidence(&world, "Both"), "likely");
    teardown(&world);
}

/* Blocks that begin in a hole, end in one, or cross from one span to the next. */
static void test_spans(void **state)
{
    (void)state;
    setup(&world);
    uint64_t t = put_class(&world, "T");
    for (int i = 0; world.heap_used < HEAP_BYTES - 4096; i++)
        BLOCK(&world, 24 + 8 * (i % 9), 2, HEAP, t);
    look(&world, 2);
    for (hx_obj i = 0; i < world.snapshot->graph.n; i++)
        assert_string_equal(type_name(&world, i), "T");
    /* without the first page, and the end */
    world.snapshot->image.span[1] = world.snapshot->image.span[2];
    world.snapshot->image.span[1].end -= 4096 + 8;
    world.snapshot->image.n = 2;
    look(&world, 2);
    const struct hx_span *span = &world.snapshot->image.span[1];
    for (hx_obj i = 0; i < world.snapshot->graph.n; i++) {
        bool seen = world.addr[i] >= span->start && world.addr[i] + 24 <= span->end;
        assert_string_equal(type_name(&world, i), seen ? "T" : "-");
    }
    teardown(&world);
}

/* Two typeinfos of one name are one type; what demangles alike too. */
static void test_one_name(void **state)
{
    (void)state;
    setup(&world);
    uint64_t a = put_class(&world, "4Node"), b = put_class(&world, "*4Node"),
             c = put_class(&world, "Node");
    hx_obj x = BLOCK(&world, 24, a), y = BLOCK(&world, 24, b), z = BLOCK(&world, 32, 7, 7, c);
    look(&world, 1);
#ifdef HX_HAVE_DEMANGLER
    assert_int_equal(world.snapshot->types.n, 1);
    assert_string_equal(type_name(&world, x), "Node");
#endif
    assert_string_equal(type_name(&world, y), type_name(&world, x));
    assert_string_equal(type_name(&world, z), "Node");
    assert_string_equal(confidence(&world, "Node"), "likely");
    teardown(&world);
}

static void test_lies(void **state)
{
    (void)state;
    setup(&world);
    static char name[2 * HX_MANGLED_MAX];
    memset(name, 'x', HX_MANGLED_MAX);
    uint64_t longest = put_class(&world, name);
    name[HX_MANGLED_MAX] = 'x';
    uint64_t longer = put_class(&world, name);
    uint64_t control = put_class(&world, "No\x1b[31mde"), empty = put_class(&world, ""),
             star = put_class(&world, "*");
    /* a typeinfo of a class that is none of the three, one of itself, and nowhere */
    uint64_t self = put_words(&world, (uint64_t[]){0, 0, 0}, 3);
    *module_word(&world, self) = self + 8;
    *module_word(&world, self + 8) = self;
    uint64_t vtables[] = {
        longer,
        control,
        empty,
        star,
        put_vtable(&world, 0, put_words(&world, (uint64_t[]){longest, put_name(&world, "N")}, 2)),
        put_vtable(&world, 0, self),
        put_vtable(&world, 0, self + 8),
        put_vtable(&world, 0, HEAP),
        put_vtable(&world, 0, 1),
        put_vtable(&world, 0, UINT64_MAX - 7),
        put_vtable(&world, 8, *module_word(&world, longest - 8)),
        put_vtable(&world, INT64_MIN, *module_word(&world, longest - 8)),
        put_vtable(&world, -12, *module_word(&world, longest - 8)),
        put_vtable(&world, 0, put_words(&world, (uint64_t[]){4, 4}, 2)),
        put_vtable(&world, 0, put_words(&world, (uint64_t[]){UINT64_MAX - 7, 8}, 2)),
        put_vtable(&world, 0, put_words(&world, (uint64_t[]){world.kind[1], UINT64_MAX - 2}, 2)),
        put_vtable(&world, 0,
                   put_words(&world, (uint64_t[]){world.kind[1], HEAP + HEAP_BYTES - 1}, 2)),
        MODULE,
        MODULE + 8,
        MODULE + MODULE_BYTES - 8,
        MODULE + MODULE_BYTES,
        RODATA,
        RODATA + 8,
        RODATA + MODULE_BYTES - 8,
        UINT64_MAX,
        UINT64_MAX - 7,
        7,
    };
    ((char *)world.heap)[HEAP_BYTES - 1] = 'x'; /* a name without an end */
    hx_obj good = BLOCK(&world, 24, longest);
    for (size_t i = 0; i < sizeof vtables / sizeof *vtables; i++) {
        BLOCK(&world, 24, vtables[i]);
        BLOCK(&world, 56, 1, vtables[i], 2, vtables[i], vtables[i], vtables[i]);
    }
    look(&world, 1);
    for (hx_obj i = 1; i < world.snapshot->graph.n; i++)
        assert_string_equal(type_name(&world, i), "-");
    assert_int_equal(strlen(type_name(&world, good)), 1000 + 3);
    teardown(&world);
}

/* Any words at all: nothing but what the invariants allow, and the same from two threads. */
static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("random memory");
    static uint32_t before[OBJECTS_MAX];
    for (size_t round = 0; round < unit_rounds(200); round++) {
        setup(&world);
        uint64_t class[8];
        for (int i = 0; i < 8; i++) {
            char name[] = "1A";
            name[1] += (char)i;
            class[i] = put_class(&world, name);
        }
        for (size_t i = 0; i < MODULE_BYTES / 8; i++) {
            uint64_t word = unit_random(&random) % MODULE_BYTES;
            world.rodata[i] ^= i > 64 ? word : 0;
            if (i * 8 >= world.module_used)
                world.module[i] = (word % 3 ? MODULE : RODATA) + word / 8 * 8;
            else if (unit_below(&random, 50) == 0)
                world.module[i] = MODULE + word / 8 * 8;
        }
        while (world.heap_used < HEAP_BYTES - 400) {
            uint64_t words[24];
            for (size_t i = 0; i < 24; i++) {
                uint64_t word = unit_random(&random);
                words[i] = word % 4 == 0   ? word >> 40
                           : word % 4 == 1 ? MODULE + word % MODULE_BYTES / 8 * 8
                           : word % 4 == 2 ? class[word / 4 % 8]
                                           : word % 8;
            }
            size_t n = unit_below(&random, 24);
            put_block(&world, n * 8, words, n);
        }
        look(&world, 1);
        memcpy(before, world.snapshot->graph.type, world.snapshot->graph.n * sizeof *before);
        size_t n = world.snapshot->types.n;
        look(&world, 2);
        assert_int_equal(world.snapshot->types.n, n);
        assert_memory_equal(before, world.snapshot->graph.type,
                            world.snapshot->graph.n * sizeof *before);
        for (hx_obj i = 0; i < world.snapshot->graph.n; i++)
            type_name(&world, i);
        teardown(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_word), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_arrays),     cmocka_unit_test(test_later_words),
        cmocka_unit_test(test_spans),      cmocka_unit_test(test_one_name),
        cmocka_unit_test(test_lies),       cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
