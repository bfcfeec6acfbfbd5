/* classes_plugin.cc - classes that a program gets by dlopen; see classes.cc. */
#include "classes.h"

#include <map>

namespace
{
struct Square : Shape {
    int corners() const override
    {
        return 4;
    }
};
} // namespace

template <typename T> struct Plugged : Shape {
    T held = {};
    int corners() const override
    {
        return 0;
    }
};

extern "C" Shape *make_shape()
{
    static int turn;
    return turn++ % 2 ? static_cast<Shape *>(new Square) : new Plugged<std::map<int, long>>;
}
