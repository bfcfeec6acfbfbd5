// mprof_cxx.cc - allocations of a C++ program: by containers, operator new and a constructor.
#include <string>
#include <vector>

struct part {
    char body[300];
};

static std::vector<part *> parts;

__attribute__((noinline)) static void grow()
{
    for (int i = 0; i < 100; i++)
        parts.push_back(new part());
}

__attribute__((noinline)) static std::string *name()
{
    return new std::string(5000, 'x');
}

int main()
{
    grow();
    return name()->empty();
}
