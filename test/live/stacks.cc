/* stacks.cc - a program that allocates on many different stacks.
 *
 *   stacks PLUGIN STRIPPED [wait]
 *
 * Built -O2 without frame pointers. Each allocation has a size of its own (MARK), so that what
 * a recorder says of its stack can be compared with what a debugger saw at that very call. All
 * blocks stay. Prints where malloc and its kin lie, waits for a line when told to, allocates,
 * prints "ready" and rests until its input ends.
 */
#include "stacks.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <alloca.h>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

/* What a debugger breaks at. 0 malloc, 1 calloc, 2 realloc, 3 aligned_alloc, 4 posix_memalign,
 * 5 memalign, 6 valloc */
extern "C" {
uintptr_t stacks_entry[7];
volatile int stacks_begun; /* 1 once main has been told to go on */
volatile int stacks_extra; /* while 1, sizes that are not MARK()s count too */
NOINLINE void stacks_located()
{
    NO_TAILCALL;
}
}

static void *volatile kept[256];
static int n_kept;

extern "C" void stacks_keep(void *block)
{
    kept[n_kept++] = block;
}

__attribute__((constructor(101))) static void locate()
{
    static const char *const name[] = {"malloc",         "calloc",   "realloc", "aligned_alloc",
                                       "posix_memalign", "memalign", "valloc"};
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        stacks_entry[i] = reinterpret_cast<uintptr_t>(dlsym(libc, name[i]));
    stacks_located();
}

/* --- before main ------------------------------------------------------------------- */
__attribute__((constructor(200))) static void early()
{
    stacks_keep(malloc(MARK(0)));
    NO_TAILCALL;
}

namespace
{
struct Static {
    Static()
    {
        stacks_keep(malloc(MARK(1)));
        NO_TAILCALL;
    }
};
Static object;
std::vector<std::array<char, MARK(2)>> filled(1);
} // namespace

/* --- plain ---------------------------------------------------------------------------- */
NOINLINE static void grab(int n)
{
    stacks_keep(malloc(MARK(n)));
    NO_TAILCALL;
}

NOINLINE static void six_registers(int n, long a, long b, long c, long d, long e)
{
    long x = a * b, y = c * d, z = e * a, u = b ^ c, v = d + e, w = a - e;
    grab(n);
    __asm__ volatile("" : : "r"(x), "r"(y), "r"(z), "r"(u), "r"(v), "r"(w));
}

NOINLINE static void with_alloca(int n, size_t bytes)
{
    char *room = static_cast<char *>(alloca(bytes));
    memset(room, n, bytes);
    grab(n);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void with_array(int n, size_t bytes)
{
    char room[bytes];
    memset(room, n, bytes);
    grab(n);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void with_aligned(int n)
{
    alignas(64) char room[256];
    memset(room, n, sizeof room);
    grab(n);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void with_much(int n)
{
    char room[40000];
    memset(room, n, sizeof room);
    grab(n);
    __asm__ volatile("" : : "r"(room) : "memory");
}

static ALWAYS void inlined_inner(int n)
{
    stacks_keep(malloc(MARK(n)));
    NO_TAILCALL;
}

static ALWAYS void inlined_outer(int n)
{
    NO_TAILCALL;
    inlined_inner(n);
}

NOINLINE static void with_inlined(int n)
{
    inlined_outer(n);
    NO_TAILCALL;
}

NOINLINE static void *tail_malloc(size_t size)
{
    return malloc(size); /* a jump */
}

NOINLINE static void *tail_twice(size_t size)
{
    return tail_malloc(size);
}

NOINLINE static void tail(int n)
{
    stacks_keep(tail_twice(MARK(n)));
    NO_TAILCALL;
}

static void (*volatile tail_target)(int) = grab;
NOINLINE static void tail_indirect(int n)
{
    tail_target(n);
}

NOINLINE static int recurse(int n, int depth)
{
    if (depth == 0) {
        grab(n);
        return 0;
    }
    int below = recurse(n, depth - 1);
    NO_TAILCALL;
    return below + 1;
}

NOINLINE static void even(int n, int depth);
NOINLINE static void odd(int n, int depth)
{
    char room[32 + 8];
    __asm__ volatile("" : : "r"(room) : "memory");
    even(n, depth - 1);
    NO_TAILCALL;
}
NOINLINE static void even(int n, int depth)
{
    if (depth <= 0)
        grab(n);
    else
        odd(n, depth - 1);
    NO_TAILCALL;
}

NOINLINE static void unlikely_path(int n)
{
    if (__builtin_expect(n > 0, 0))
        grab(n);
    NO_TAILCALL;
}

/* --- through the C library ------------------------------------------------------------ */
NOINLINE static int compare(const void *a, const void *b)
{
    static bool once;
    if (!once) {
        once = true;
        grab(20);
    }
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

NOINLINE static int compare_found(const void *a, const void *b)
{
    static bool once;
    if (!once) {
        once = true;
        grab(21);
    }
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static int visit_module(dl_phdr_info *, size_t, void *)
{
    grab(22);
    NO_TAILCALL;
    return 1;
}

static void visit_node(const void *, VISIT visit, int depth)
{
    if (visit == leaf || (visit == postorder && depth == 0))
        grab(23);
}

NOINLINE static void through_libc()
{
    int number[64];
    for (int i = 0; i < 64; i++)
        number[i] = i * 37 % 64;
    qsort(number, 64, sizeof *number, compare);
    auto *volatile find = bsearch;
    find(number + 5, number, 64, sizeof *number, compare_found);
    dl_iterate_phdr(visit_module, nullptr);
    void *tree = nullptr;
    tsearch(number, &tree, [](const void *, const void *) { return 0; });
    twalk(tree, visit_node);
}

NOINLINE static void inside_libc()
{
    static char text[MARK(25)], line[64 << 10];
    memset(text, 'x', sizeof text - 1);
    stacks_keep(strdup(text)); /* MARK(25) */
    char *printed;
    if (asprintf(&printed, "%.*s", static_cast<int>(MARK(24)) - 1, text) > 0)
        stacks_keep(printed);
    memset(line, 'y', MARK(27) - 2);
    line[MARK(27) - 2] = '\n';
    char *got = nullptr;
    size_t room = 0;
    stacks_extra = 1;
    if (FILE *file = fmemopen(line, MARK(27) - 1, "r")) { /* the stream's own blocks */
        if (getline(&got, &room, file) > 0)
            stacks_keep(got);
    }
    stacks_keep(fopen("/dev/null", "r"));
    stacks_keep(opendir("/"));
    stacks_extra = 0;
    stacks_keep(calloc(1, MARK(28)));
    stacks_keep(realloc(malloc(100), MARK(29)));
    stacks_keep(aligned_alloc(64, MARK(30)));
    void *aligned;
    if (posix_memalign(&aligned, 256, MARK(31)) == 0)
        stacks_keep(aligned);
    stacks_keep(memalign(128, MARK(32)));
    stacks_keep(valloc(MARK(33)));
    stacks_keep(reallocarray(nullptr, 1, MARK(34)));
}

/* --- libraries -------------------------------------------------------------------------- */
static void (*lazy)(int);
static void (*resolve)();
static void (*callback)(void (*)(int), int);
static void *(*tls)();
static void (*throws)(int);
static void (*direct)(int);
static void (*deep)(int, int);
static void (*stripped_back)(void (*)(int), int);

template <typename F> static void find(void *library, const char *name, F &ret)
{
    ret = reinterpret_cast<F>(dlsym(library, name));
    if (!ret) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

NOINLINE static void load(const char *plugin, const char *stripped)
{
    void *first = dlopen(plugin, RTLD_LAZY), *second = dlopen(stripped, RTLD_LAZY);
    if (!first || !second) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    find(first, "plugin_lazy", lazy);
    find(first, "plugin_resolve", resolve);
    find(first, "plugin_callback", callback);
    find(first, "plugin_tls", tls);
    find(first, "plugin_throw", throws);
    find(second, "stripped_direct", direct);
    find(second, "stripped_deep", deep);
    find(second, "stripped_callback", stripped_back);
}

NOINLINE static void through_libraries()
{
    lazy(44); /* binds */
    lazy(45);
    resolve(); /* MARK(40) */
    callback(grab, 46);
    direct(47);
    deep(48, 20);
    stripped_back(grab, 49);
    stacks_extra = 1;
    stacks_keep(tls()); /* MARK(41) and what the linker asks beside it */
    stacks_extra = 0;
}

/* --- exceptions --------------------------------------------------------------------------- */
static std::exception_ptr caught[8];

struct Dies {
    int n;
    ~Dies()
    {
        grab(n);
        NO_TAILCALL;
    }
};

struct Fails {
    explicit Fails(int n)
    {
        grab(n);
        plugin(43);
    }
    NOINLINE static void plugin(int n)
    {
        throws(n);
        NO_TAILCALL;
    }
};

NOINLINE static void unwinds(int n)
{
    Dies one = {n};
    Fails::plugin(42);
    __asm__ volatile("" : : "r"(&one));
}

NOINLINE static void exceptions()
{
    try {
        unwinds(50);
    } catch (...) {
        grab(51);
        caught[0] = std::current_exception();
    }
    try {
        Fails fails(52);
        __asm__ volatile("" : : "r"(&fails));
    } catch (...) {
        caught[1] = std::current_exception();
    }
    try {
        try {
            throw 1;
        } catch (int) {
            throw; /* and a second phase in another frame */
        }
    } catch (int) {
        grab(53);
    }
}

/* --- C++ ------------------------------------------------------------------------------------ */
struct Base {
    virtual ~Base() = default;
    virtual void act(int n) = 0;
};
struct Left : Base {
    char room[24];
    void act(int n) override
    {
        grab(n);
        NO_TAILCALL;
    }
};
struct Other {
    virtual ~Other() = default;
    virtual void more(int n) = 0;
};
struct Right : Left, Other {
    void more(int n) override /* reached through a thunk */
    {
        grab(n);
        NO_TAILCALL;
    }
};

template <size_t N> struct Sized {
    char bytes[N];
};

template <typename T> NOINLINE static void templated(int n)
{
    T local;
    __asm__ volatile("" : : "r"(&local) : "memory");
    grab(n);
    NO_TAILCALL;
}

NOINLINE static void cplusplus()
{
    static std::vector<Sized<MARK(60)>> vector;
    vector.emplace_back();
    static std::vector<Sized<(MARK(61) - 7) / 4>> grown;
    for (int i = 0; i < 3; i++) /* 1, 2, 4 elements: not a MARK(), but odd enough */
        grown.emplace_back();
    static std::map<int, Sized<MARK(62) - 40>> map;
    stacks_extra = 1;
    map[1];
    static std::unordered_map<int, Sized<MARK(63)>> hashed;
    hashed[1];
    static std::string text;
    text.append(MARK(64) - 1, 'x');
    static std::function<void(int)> function;
    Sized<MARK(65)> large;
    memset(&large, 0, sizeof large);
    function = [large](int n) { grab(n + large.bytes[0]); };
    static auto shared = std::make_shared<Sized<MARK(66)>>();
    static std::unique_ptr<char[]> array(new char[MARK(67)]);
    stacks_extra = 0;
    function(68);
    auto lambda = [](int n) __attribute__((noinline))
    {
        grab(n);
        NO_TAILCALL;
    };
    lambda(69);
    static Right right;
    Base *volatile base = &right;
    base->act(70);
    Other *volatile other = &right;
    other->more(71);
    void (Base::*volatile member)(int) = &Base::act;
    (base->*member)(72);
    templated<std::map<int, std::string>>(73);
    stacks_keep(operator new(MARK(74), std::align_val_t(64)));
}

/* --- signals, contexts, threads --------------------------------------------------------------- */
static void on_signal(int number, siginfo_t *, void *)
{
    grab(number == SIGUSR1 ? 80 : number == SIGUSR2 ? 81 : 82);
    NO_TAILCALL;
}

NOINLINE static int fault(volatile int *where)
{
    return *where + 1;
}

NOINLINE static void spin_for_signal(volatile int *flag)
{
    while (!*flag)
        ;
}
static volatile int timer_came;
static void on_timer(int)
{
    grab(83);
    timer_came = 1;
}

static void on_fault(int, siginfo_t *info, void *context)
{
    grab(84);
    /* goes on behind the load: "mov (%rdi), %eax" */
    auto *uc = static_cast<ucontext_t *>(context);
    static int nothing;
    uc->uc_mcontext.gregs[REG_RDI] = reinterpret_cast<greg_t>(&nothing);
    (void)info;
}

NOINLINE static void signals()
{
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    stack_t stack = {};
    stack.ss_size = 64 << 10;
    static char room[64 << 10];
    stack.ss_sp = room;
    sigaltstack(&stack, nullptr);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGUSR2, &action, nullptr);
    raise(SIGUSR2);
    action.sa_sigaction = on_fault;
    sigaction(SIGSEGV, &action, nullptr);
    static int *volatile nowhere;
    fault(nowhere);
    struct sigaction timer = {};
    timer.sa_handler = on_timer;
    sigaction(SIGALRM, &timer, nullptr);
    ualarm(20000, 0);
    spin_for_signal(&timer_came);
}

static ucontext_t main_context, other_context;
static void in_context(int n)
{
    grab(n);
    NO_TAILCALL;
}

NOINLINE static void contexts()
{
    static char stack[64 << 10];
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    other_context.uc_link = &main_context;
    makecontext(&other_context, reinterpret_cast<void (*)()>(in_context), 1, 85);
    swapcontext(&main_context, &other_context);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void once_only()
{
    grab(86);
    NO_TAILCALL;
}

struct Local {
    int n = 0;
    ~Local()
    {
        grab(87);
        NO_TAILCALL;
    }
};
static thread_local Local local;

static void *thread(void *argument)
{
    local.n = 1;
    pthread_once(&once, once_only);
    grab(88);
    static pthread_key_t key;
    pthread_key_create(&key, [](void *) {
        grab(89);
        NO_TAILCALL;
    });
    pthread_setspecific(key, argument);
    return nullptr;
}

static void *cancelled(void *)
{
    pthread_cleanup_push(
        [](void *) {
            grab(90);
            NO_TAILCALL;
        },
        nullptr);
    pthread_exit(nullptr);
    pthread_cleanup_pop(1);
    return nullptr;
}

NOINLINE static void threads()
{
    pthread_t id;
    pthread_create(&id, nullptr, thread, &once);
    pthread_join(id, nullptr);
    pthread_create(&id, nullptr, cancelled, nullptr);
    pthread_join(id, nullptr);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (argc < 3)
        return 2;
    printf("entry");
    for (uintptr_t entry : stacks_entry)
        printf(" %#lx", entry);
    printf("\nhere\n");
    fflush(stdout);
    if (argc > 3)
        getchar();
    stacks_begun = 1;
    load(argv[1], argv[2]);
    grab(3);
    six_registers(4, 1, 2, 3, 4, 5);
    with_alloca(5, 1000 + argc);
    with_array(6, 2000 + argc);
    with_aligned(7);
    with_much(8);
    with_inlined(9);
    tail(10);
    tail_indirect(11);
    recurse(12, 200);
    even(13, 31);
    unlikely_path(14);
    through_libc();
    inside_libc();
    through_libraries();
    exceptions();
    cplusplus();
    signals();
    contexts();
    threads();
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    _exit(0); /* nothing is destroyed, so that a last snapshot finds all blocks */
}
