/* classes.cc - a C++ program that says of which class each of its blocks is.
 *
 *   classes [-m] [PLUGIN]
 *
 * Makes objects in every way that leaves a vtable pointer in a block, and some that leave
 * none; then prints for each block `ADDRESS CONFIDENCE NAME`, the name as typeid and the
 * demangler of its own runtime say it (-m: mangled), "-" and "-" where there must be none,
 * then "ready", and waits for the end of stdin. PLUGIN is loaded with dlopen. Built without
 * RTTI all of its own blocks must be without a type.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "classes.h"

#ifndef CLASSES_STATIC
#include <dlfcn.h>
#endif
#ifdef __GXX_RTTI
#include <cxxabi.h>
#include <typeinfo>
#endif

static bool mangled;

struct Truth {
    uintptr_t address;
    const char *confidence;
    std::string name;
};
static std::vector<Truth> truth;

/* --- what there is -------------------------------------------------------------------- */

struct Lonely { /* one virtual function */
    virtual int only()
    {
        return 1;
    }
    long value = 1;
};

struct Circle : Shape {
    double radius = 1;
    int corners() const override
    {
        return 0;
    }
};
struct Disk : Circle {
    long color[5] = {};
};

struct Left {
    virtual ~Left()
    {
    }
    long left = 1;
};
struct Right {
    virtual ~Right()
    {
    }
    long right = 2;
};
struct Both : Left, Right {
    long own = 3;
};
struct Top {
    virtual ~Top()
    {
    }
    long top = 1;
};
struct West : virtual Top {
    long west = 2;
};
struct East : virtual Top {
    long east = 3;
};
struct Diamond : West, East {
    long own = 4;
};
struct Data {
    long words[2] = {};
};
struct Mixed : Data, Left { /* the compiler puts Left first */
};

template <typename T, int N = 3> struct Box : Shape {
    T held[N] = {};
    int corners() const override
    {
        return N;
    }
};

namespace zoo
{
namespace
{
struct Hidden : Shape {
    int corners() const override
    {
        return -1;
    }
};
} // namespace
struct Animal {
    struct Tail : Shape {
        int corners() const override
        {
            return 1;
        }
    };
};
} // namespace zoo

struct alignas(16) Wide {
    virtual ~Wide()
    {
    }
    long value[3] = {};
};
struct alignas(64) Wider {
    virtual ~Wider()
    {
    }
    long value[3] = {};
};
struct Element {
    virtual ~Element()
    {
    }
    long value[2] = {};
};
struct Small {
    virtual ~Small()
    {
    }
};
struct Listed {
    virtual ~Listed()
    {
    }
    long value = 5;
};
struct Hashed {
    virtual ~Hashed()
    {
    }
    long value = 6;
};
struct Mapped {
    virtual ~Mapped()
    {
    }
    long value = 7;
};
struct Packed {
    virtual ~Packed()
    {
    }
    long value = 8;
};
struct Error : std::runtime_error {
    Error() : std::runtime_error("planned")
    {
    }
};

/* --- telling -------------------------------------------------------------------------- */

static void tell_none(const void *block)
{
    truth.push_back({reinterpret_cast<uintptr_t>(block), "-", "-"});
}

#ifdef __GXX_RTTI
static std::string name_of(const std::type_info &info)
{
    int status = 0;
    char *name = mangled ? nullptr : abi::__cxa_demangle(info.name(), nullptr, nullptr, &status);
    std::string result = name ? name : info.name();
    free(name);
    return result;
}
#define NAME(object) name_of(typeid(object))
#else
#define NAME(object) std::string("-")
#endif

/* The block begins `before` bytes before the object. */
template <typename T>
static void tell(const T *object, size_t before = 0, const char *confidence = "certain",
                 const char *suffix = "")
{
    std::string name = NAME(*object);
    if (name == "-")
        tell_none(reinterpret_cast<const char *>(object) - before);
    else
        truth.push_back({reinterpret_cast<uintptr_t>(object) - before, confidence, name + suffix});
}

template <typename T> static void tell_array(size_t n)
{
    size_t cookie = alignof(T) > sizeof(size_t) ? alignof(T) : sizeof(size_t);
    tell(new T[n], cookie, "certain", "[]");
}

#ifdef __GLIBCXX__
using Counts = std::_Sp_counted_base<>;
constexpr size_t hash_words = 0; /* of a node of std::unordered_map<long, ...> */
#else
using Counts = std::__shared_weak_count;
constexpr size_t hash_words = 1;
#endif

/* What std::make_shared and std::shared_ptr's constructor make beside or around an object. */
template <typename T> static void tell_counts(const std::shared_ptr<T> *pointer)
{
    const void *control;
    memcpy(&control, reinterpret_cast<const char *>(pointer) + sizeof(void *), sizeof control);
    tell(static_cast<const Counts *>(control));
}

static void plain_objects()
{
    tell(new Lonely);
    tell(new Circle);
    tell(new Disk);
    for (int i = 0; i < 100; i++)
        tell(static_cast<Shape *>(i % 2 ? new Circle : new Disk));
    tell(new Both);
    tell(static_cast<Left *>(new Both));
    tell(new West);
    tell(new Diamond);
    tell(new Mixed);
    tell(new Box<int>);
    tell(new Box<std::string, 1>);
    tell(new Box<std::map<std::string, std::vector<Box<int> *>>, 2>);
    tell(new zoo::Hidden);
    tell(new zoo::Animal::Tail);
    struct Local : Shape {
        int corners() const override
        {
            return 2;
        }
    };
    tell(new Local);
    auto lambda = [](int i) { return i; };
    tell(new Box<decltype(lambda) *>);
#ifdef __GXX_RTTI /* the library has it in any case */
    tell(new std::ostringstream);
#endif
    tell(new Wide);
    tell(new Wider);
}

static void arrays()
{
    tell_array<Element>(1);
    tell_array<Element>(2);
    tell_array<Element>(7);
    tell_array<Element>(1000);
    tell_array<Small>(1);
    tell_array<Small>(2);
    tell_array<Small>(3);
    tell_array<Small>(33);
    tell_array<Both>(5);
    tell_array<Diamond>(4);
    tell_array<Wide>(3);
    tell_array<Wider>(3);
    auto *packed = new std::vector<Packed>(9);
    tell(packed->data());
    tell_none(packed);
}

static void containers()
{
    auto *list = new std::list<Listed>(50);
    for (const Listed &listed : *list)
        tell(&listed, 2 * sizeof(void *), "likely");
    auto *hashed = new std::unordered_map<long, Hashed>;
    for (long i = 0; i < 50; i++)
        (*hashed)[i];
    for (const auto &pair : *hashed)
        tell(&pair.second, sizeof(void *) * (1 + hash_words) + sizeof(long), "likely");
    auto *mapped = new std::map<std::string, Mapped>;
    for (int i = 0; i < 50; i++)
        (*mapped)[std::to_string(i)];
    for (const auto &pair : *mapped)
        tell(&pair.second, 4 * sizeof(void *) + sizeof(std::string), "likely");
    auto *owned = new std::map<int, std::unique_ptr<Shape>>;
    for (int i = 0; i < 50; i++)
        (*owned)[i].reset(i % 3 ? static_cast<Shape *>(new Circle) : new Box<long>);
    for (const auto &pair : *owned) {
        tell(pair.second.get());
        tell_none(reinterpret_cast<const char *>(&pair) - 4 * sizeof(void *));
    }
    for (int i = 0; i < 10; i++) {
        auto *made = new std::shared_ptr<Circle>(std::make_shared<Circle>());
        auto *given = new std::shared_ptr<Disk>(new Disk);
        tell_counts(made);
        tell_counts(given);
        tell(given->get());
        tell_none(made);
    }
}

static void others()
{
    tell_none(calloc(1, 200));
    tell_none(memset(malloc(300), 0x55, 300));
    auto *numbers = static_cast<uint64_t *>(malloc(8 * 64));
    for (uint64_t i = 0; i < 64; i++)
        numbers[i] = i * 0x100001;
    tell_none(numbers);
    tell_none((new std::string(1000, 'x'))->data());
    tell_none(new Data);
    auto **pointers = static_cast<const void **>(malloc(8 * 64));
    for (int i = 0; i < 64; i++) /* into the program, but to no vtable */
        pointers[i] =
            i % 2 ? reinterpret_cast<const void *>(&others) : static_cast<const void *>(&truth);
    tell_none(pointers);
    /* a thrown object stands behind 128 bytes of the runtime's */
    static auto held = std::make_exception_ptr(Error());
    try {
        std::rethrow_exception(held);
    } catch (Error &error) {
        tell(&error, 128, "likely");
    }
}

#ifndef CLASSES_STATIC
static void plugin(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "classes: %s\n", dlerror());
        exit(1);
    }
    auto make = reinterpret_cast<Shape *(*)()>(dlsym(library, "make_shape"));
    for (int i = 0; i < 20; i++)
        tell(make());
}
#endif

int main(int argc, char **argv)
{
    int i = 1;
    if (i < argc && strcmp(argv[i], "-m") == 0) {
        mangled = true;
        i++;
    }
    plain_objects();
    arrays();
    containers();
    others();
#ifndef CLASSES_STATIC
    if (i < argc)
        plugin(argv[i]);
#endif
    for (const Truth &one : truth)
        printf("0x%jx %s %s\n", static_cast<uintmax_t>(one.address), one.confidence,
               one.name.c_str());
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    _Exit(0);
}
