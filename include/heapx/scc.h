/* heapx/scc.h - a program says on whose behalf it allocates: regions, and work that is done later.
 *
 * Permission to use, copy, modify, and distribute this file for any purpose, with or without fee,
 * and without this notice, is hereby granted. It comes without any warranty.
 *
 * A region is a cost centre that the program sets itself, beside its functions:
 *
 *     void render(struct page *page)
 *     {
 *         HEAPX_SCC("rendering");         until the end of the block, however it is left
 *         ...
 *     }
 *
 * or, where it is not a block, but always within one function:
 *
 *     HEAPX_CENTRE(parsing, "parsing");
 *
 *     heapx_scc_push(&parsing);
 *     ...
 *     heapx_scc_pop(&parsing);
 *
 * Work that is created here and done there, by a thread of a pool or in a callback, belongs to who
 * asked for it, not to who runs it:
 *
 *     task->stack = heapx_scc_capture();  when it is created
 *     ...
 *     heapx_scc_enter(task->stack);       when it is run
 *     task->run(task);
 *     heapx_scc_leave(task->stack);
 *
 * HEAPX_SCC_ENTER(task->stack); does the latter until the end of the block. In C++ heapx::box(f)
 * makes a callable that enters the stack on which it was made each time it is called:
 *
 *     pool.submit(heapx::box([=] { ... }));
 *
 * Regions may also be made while the program runs, as for the functions of a script: any struct
 * heapx_centre serves, as long as it lives and stays as it is for the rest of the program. Each is
 * a region of its own, whatever its label.
 *
 * A region belongs to the function that the call stands in, and ends with it at the latest. What is
 * left by longjmp(), or never popped, is noticed by the next call and counted. So wrap these calls
 * in macros, or in functions that are always inlined.
 *
 * Nothing else is needed: no library, no option of the compiler or linker. While nobody listens a
 * call is two loads and a branch. Under `heapx run` and `heapx record` it counts an entry of the
 * region, and all that is allocated meanwhile has the region on its stack: `heapx report FILE ccs`.
 * With HEAPX_SCC_DISABLE defined, and wherever this is not C99 or C++11 of GCC or Clang for x86-64
 * ELF, all of this is there and does nothing.
 */
#ifndef HEAPX_SCC_H
#define HEAPX_SCC_H

#include <stdint.h>

#if !defined HEAPX_SCC_DISABLE && defined __ELF__ && defined __LP64__ && defined __x86_64__ &&     \
    defined __GNUC__
#define HEAPX_SCC_ENABLED 1
#else
#define HEAPX_SCC_ENABLED 0
#endif

#ifdef __GNUC__
#define HEAPX_UNUSED_     __attribute__((unused))
#define HEAPX_INLINE_     inline __attribute__((always_inline, unused))
#define HEAPX_CLEANUP_(f) __attribute__((cleanup(f), unused))
#else
#define HEAPX_UNUSED_
#define HEAPX_INLINE_ inline
#endif
#ifdef __cplusplus
#define HEAPX_NULL_ nullptr
#else
#define HEAPX_NULL_ ((const char *)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A region. What it is, is its address. */
struct heapx_centre {
    const char *label;
    const char *function, *file; /* may be null */
    unsigned line, unused;       /* may be 0 */
};

/* A stack that was captured. 0: nobody listened. */
typedef struct heapx_stack {
    uint64_t id;
} heapx_stack;

/* A region by name, at the top of a file or in a function. */
#define HEAPX_CENTRE(name, label)                                                                  \
    static const struct heapx_centre name HEAPX_UNUSED_ = {(label), HEAPX_NULL_, __FILE__,         \
                                                           __LINE__, 0}

/* What the library of `heapx run` puts in its place. It is called as if by the function that the
 * call stands in. */
struct heapx_scc_listener {
    uint64_t version; /* 1 */
    void (*push)(const struct heapx_centre *centre);
    void (*pop)(const struct heapx_centre *centre);
    uint64_t (*capture)(void);
    void (*enter)(uint64_t id);
    void (*leave)(uint64_t id);
};

/* One for each program and shared object that includes this. heapx finds it by its symbol or, where
 * symbols were stripped, by a note of owner "heapx" and type 2 that holds the distance to it from
 * the note's own 8 bytes. This layout never changes; another one would have another name. */
struct heapx_scc_module {
    volatile unsigned short semaphore; /* how many probes are set, by the kernel */
    unsigned short unused[3];
    const struct heapx_scc_listener *volatile listener;
    uint64_t captures; /* how many were numbered here */
};

#if HEAPX_SCC_ENABLED

extern struct heapx_scc_module heapx_scc_v1 __attribute__((visibility("hidden")));

/* Probe and call of the listener, below. */
#define HEAPX_STUB_ __attribute__((visibility("hidden"), nothrow))
extern void heapx_scc_v1_push(const struct heapx_centre *centre) HEAPX_STUB_;
extern void heapx_scc_v1_pop(const struct heapx_centre *centre) HEAPX_STUB_;
extern uint64_t heapx_scc_v1_capture(uint64_t id) HEAPX_STUB_;
extern void heapx_scc_v1_enter(uint64_t id) HEAPX_STUB_;
extern void heapx_scc_v1_leave(uint64_t id) HEAPX_STUB_;
#undef HEAPX_STUB_

/* Each stub begins with its probe, so the stack pointer there is 8 below what the calling function
 * has; the listener is reached by a jump, so it sees that function as its caller. `at` is the
 * function's offset in the listener. capture hands its argument back when there is none. */
#define HEAPX_STUB_BEGIN_(name, at)                                                                \
    "\t.weak heapx_scc_v1_" name "\n"                                                              \
    "\t.hidden heapx_scc_v1_" name "\n"                                                            \
    "\t.type heapx_scc_v1_" name ",%function\n"                                                    \
    "\t.balign 16\n"                                                                               \
    "heapx_scc_v1_" name ":\n"                                                                     \
    "\t.cfi_startproc\n"                                                                           \
    "\tnop\n"                                                                                      \
    "\tmovq heapx_scc_v1+8(%rip),%rax\n"                                                           \
    "\ttestq %rax,%rax\n"                                                                          \
    "\tje 77f\n"                                                                                   \
    "\tjmpq *" at "(%rax)\n"                                                                       \
    "77:\n"
#define HEAPX_STUB_END_(name)                                                                      \
    "\tretq\n"                                                                                     \
    "\t.cfi_endproc\n"                                                                             \
    "\t.size heapx_scc_v1_" name ",.-heapx_scc_v1_" name "\n"
#define HEAPX_PROBE_(name)                                                                         \
    "\t.balign 4\n"                                                                                \
    "\t.4byte 8,78f-77f,3\n"                                                                       \
    "\t.asciz \"stapsdt\"\n"                                                                       \
    "77:\n"                                                                                        \
    "\t.8byte heapx_scc_v1_" name "\n"                                                             \
    "\t.8byte _.stapsdt.base\n"                                                                    \
    "\t.8byte heapx_scc_v1\n"                                                                      \
    "\t.asciz \"heapx\"\n"                                                                         \
    "\t.asciz \"" name "\"\n"                                                                      \
    "\t.asciz \"8@%rdi\"\n"                                                                        \
    "78:\n"                                                                                        \
    "\t.balign 4\n"

/* One for all files of a module, see heapx/roots.h. The variable is in no .bss: the kernel counts
 * only in memory that comes from the file. The base of the probes is as <sys/sdt.h> has it, which
 * may be there, too. */
/* clang-format off */
__asm__(".ifndef heapx_scc_v1\n"
        "\t.pushsection .probes,\"awG\",%progbits,heapx_scc_v1,comdat\n"
        "\t.weak heapx_scc_v1\n"
        "\t.hidden heapx_scc_v1\n"
        "\t.type heapx_scc_v1,%object\n"
        "\t.size heapx_scc_v1,24\n"
        "\t.balign 32\n"
        "heapx_scc_v1:\n"
        "\t.zero 24\n"
        "\t.popsection\n"
        "\t.pushsection .text.heapx_scc_v1,\"axG\",%progbits,heapx_scc_v1,comdat\n"
        HEAPX_STUB_BEGIN_("push", "8")
        HEAPX_STUB_END_("push")
        HEAPX_STUB_BEGIN_("pop", "16")
        HEAPX_STUB_END_("pop")
        HEAPX_STUB_BEGIN_("capture", "24")
        "\tmovq %rdi,%rax\n"
        HEAPX_STUB_END_("capture")
        HEAPX_STUB_BEGIN_("enter", "32")
        HEAPX_STUB_END_("enter")
        HEAPX_STUB_BEGIN_("leave", "40")
        HEAPX_STUB_END_("leave")
        "\t.popsection\n"
        "\t.pushsection .note.heapx,\"aG\",%note,heapx_scc_v1,comdat\n"
        "\t.balign 4\n"
        "\t.4byte 6,8,2\n"
        "\t.ascii \"heapx\\0\\0\\0\"\n"
        "\t.8byte heapx_scc_v1-.\n"
        "\t.popsection\n"
        "\t.pushsection .note.stapsdt,\"G\",%note,heapx_scc_v1,comdat\n"
        HEAPX_PROBE_("push")
        HEAPX_PROBE_("pop")
        HEAPX_PROBE_("capture")
        HEAPX_PROBE_("enter")
        HEAPX_PROBE_("leave")
        "\t.popsection\n"
        ".endif\n"
        ".ifndef _.stapsdt.base\n"
        "\t.pushsection .stapsdt.base,\"aG\",%progbits,.stapsdt.base,comdat\n"
        "\t.weak _.stapsdt.base\n"
        "\t.hidden _.stapsdt.base\n"
        "_.stapsdt.base:\n"
        "\t.space 1\n"
        "\t.size _.stapsdt.base,1\n"
        "\t.popsection\n"
        ".endif\n");
/* clang-format on */
#undef HEAPX_STUB_BEGIN_
#undef HEAPX_STUB_END_
#undef HEAPX_PROBE_

/* In a condition as it stands, which compilers make the least of where they do not optimize. */
#define HEAPX_LISTENED_() (heapx_scc_v1.listener || heapx_scc_v1.semaphore)
#ifdef __OPTIMIZE__
#define HEAPX_LISTENS_() __builtin_expect(HEAPX_LISTENED_(), 0)
#else
#define HEAPX_LISTENS_() HEAPX_LISTENED_()
#endif

/* Puts a region on the calling function. */
static HEAPX_INLINE_ void heapx_scc_push(const struct heapx_centre *centre)
{
    if (HEAPX_LISTENS_())
        heapx_scc_v1_push(centre);
}

/* Takes it away again, and with it what was put on it and forgotten. */
static HEAPX_INLINE_ void heapx_scc_pop(const struct heapx_centre *centre)
{
    if (HEAPX_LISTENS_())
        heapx_scc_v1_pop(centre);
}

/* The stack that is current now, for work that is done later. It need not be given back. */
static HEAPX_INLINE_ heapx_stack heapx_scc_capture(void)
{
    heapx_stack stack = {0};
    if (HEAPX_LISTENS_()) {
        /* A number that no other capture in the process has, for listeners that have none. */
        struct heapx_scc_module *mine = &heapx_scc_v1;
        const uint64_t one = 1;
        uint64_t number = __atomic_fetch_add(&mine->captures, one, __ATOMIC_RELAXED), module;
        __builtin_memcpy(&module, &mine, sizeof module);
        stack.id = heapx_scc_v1_capture((module >> 12 << 28 ^ number) | one << 63);
    }
    return stack;
}

/* From now on what the calling function does belongs to a captured stack. */
static HEAPX_INLINE_ void heapx_scc_enter(heapx_stack stack)
{
    if (HEAPX_LISTENS_())
        heapx_scc_v1_enter(stack.id);
}

static HEAPX_INLINE_ void heapx_scc_leave(heapx_stack stack)
{
    if (HEAPX_LISTENS_())
        heapx_scc_v1_leave(stack.id);
}

#else

static HEAPX_INLINE_ void heapx_scc_push(const struct heapx_centre *centre)
{
    (void)centre;
}
static HEAPX_INLINE_ void heapx_scc_pop(const struct heapx_centre *centre)
{
    (void)centre;
}
static HEAPX_INLINE_ heapx_stack heapx_scc_capture(void)
{
    heapx_stack stack = {0};
    return stack;
}
static HEAPX_INLINE_ void heapx_scc_enter(heapx_stack stack)
{
    (void)stack;
}
static HEAPX_INLINE_ void heapx_scc_leave(heapx_stack stack)
{
    (void)stack;
}

#endif

#ifdef __cplusplus
}

#include <type_traits>
#include <utility>

namespace heapx
{

/* A region for as long as it lives: a local variable. */
class scope
{
  public:
    explicit HEAPX_INLINE_ scope(const heapx_centre *centre) noexcept : centre_(centre)
    {
        heapx_scc_push(centre_);
    }
    HEAPX_INLINE_ ~scope()
    {
        heapx_scc_pop(centre_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    const heapx_centre *centre_;
};

/* A stack that is entered for as long as it lives: a local variable. */
class entered
{
  public:
    explicit HEAPX_INLINE_ entered(heapx_stack stack) noexcept : stack_(stack)
    {
        heapx_scc_enter(stack_);
    }
    HEAPX_INLINE_ ~entered()
    {
        heapx_scc_leave(stack_);
    }
    entered(const entered &) = delete;
    entered &operator=(const entered &) = delete;

  private:
    heapx_stack stack_;
};

/* A callable with the stack on which it was made. */
template <class F> class boxed
{
  private:
    F function_;
    heapx_stack stack_;

  public:
    template <class G>
    HEAPX_INLINE_ boxed(G &&function, heapx_stack stack)
        : function_(std::forward<G>(function)), stack_(stack)
    {
    }
    template <class... A>
    auto operator()(A &&...arguments)
        -> decltype(std::declval<F &>()(std::forward<A>(arguments)...))
    {
        const entered in(stack_);
        return function_(std::forward<A>(arguments)...);
    }
    template <class... A>
    auto operator()(A &&...arguments) const
        -> decltype(std::declval<const F &>()(std::forward<A>(arguments)...))
    {
        const entered in(stack_);
        return function_(std::forward<A>(arguments)...);
    }
};

template <class F> HEAPX_INLINE_ boxed<typename std::decay<F>::type> box(F &&function)
{
    return boxed<typename std::decay<F>::type>(std::forward<F>(function), heapx_scc_capture());
}

} // namespace heapx
#endif

/* --- until the end of the block ------------------------------------------------------------ */

#define HEAPX_JOIN_(a, b)  HEAPX_JOIN2_(a, b)
#define HEAPX_JOIN2_(a, b) a##b
#if defined __clang__ && __clang_major__ >= 21
#define HEAPX_NUMBER_ __LINE__ /* there the other is said to be too new for its own good */
#else
#define HEAPX_NUMBER_ __COUNTER__
#endif

#ifdef __cplusplus
#define HEAPX_SCC2_(label, n)                                                                      \
    static const struct heapx_centre HEAPX_JOIN_(heapx_centre_, n) = {(label), __func__, __FILE__, \
                                                                      __LINE__, 0};                \
    const ::heapx::scope HEAPX_JOIN_(heapx_scope_, n)(&HEAPX_JOIN_(heapx_centre_, n))
#define HEAPX_SCC_ENTER2_(stack, n) const ::heapx::entered HEAPX_JOIN_(heapx_entered_, n)(stack)
#elif defined __GNUC__
static HEAPX_INLINE_ void heapx_scc_popped_(const struct heapx_centre *const *centre)
{
    heapx_scc_pop(*centre);
}
static HEAPX_INLINE_ void heapx_scc_left_(const heapx_stack *stack)
{
    heapx_scc_leave(*stack);
}
static HEAPX_INLINE_ const struct heapx_centre *heapx_scc_pushed_(const struct heapx_centre *centre)
{
    heapx_scc_push(centre);
    return centre;
}
static HEAPX_INLINE_ heapx_stack heapx_scc_entered_(heapx_stack stack)
{
    heapx_scc_enter(stack);
    return stack;
}
#define HEAPX_SCC2_(label, n)                                                                      \
    static const struct heapx_centre HEAPX_JOIN_(heapx_centre_, n) = {(label), __func__, __FILE__, \
                                                                      __LINE__, 0};                \
    const struct heapx_centre *const HEAPX_JOIN_(heapx_scope_, n)                                  \
        HEAPX_CLEANUP_(heapx_scc_popped_) = heapx_scc_pushed_(&HEAPX_JOIN_(heapx_centre_, n))
#define HEAPX_SCC_ENTER2_(stack, n)                                                                \
    const heapx_stack HEAPX_JOIN_(heapx_entered_, n) HEAPX_CLEANUP_(heapx_scc_left_) =             \
        heapx_scc_entered_(stack)
#else
#define HEAPX_SCC2_(label, n)       ((void)0)
#define HEAPX_SCC_ENTER2_(stack, n) ((void)0)
#endif

/* A declaration: what follows in the block is in a region of this label, a string literal. */
#define HEAPX_SCC(label) HEAPX_SCC2_(label, HEAPX_NUMBER_)

/* A declaration: what follows in the block belongs to a captured stack. */
#define HEAPX_SCC_ENTER(stack) HEAPX_SCC_ENTER2_(stack, HEAPX_NUMBER_)

#endif
