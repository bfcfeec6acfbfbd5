// unwind_throw.cc - stacks in the constructors and destructors around a C++ exception.

namespace
{
struct teller {
    void (*take)();
    explicit teller(void (*t)()) : take(t)
    {
        take();
    }
    ~teller()
    {
        take(); // while the exception looks for its handler, called from the landing pad
    }
};

struct thrown {
    int code;
};

__attribute__((noinline)) int inner(void (*take)(), int depth)
{
    teller here(take);
    if (depth == 0)
        throw thrown{1};
    return inner(take, depth - 1) + 1;
}
} // namespace

extern "C" void unwind_throw(void (*take)())
{
    try {
        inner(take, 0);
    } catch (const thrown &) {
        take();
    }
}
