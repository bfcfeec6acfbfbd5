/* objects.cc - classes of all kinds and the containers of the library, each block noted. What
 * std::allocator makes is noted by the header that typed.py puts before the library's own. */
#include <any>
#include <array>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>
#include "note.h"

struct noted *noted;

namespace app
{
struct Plain {
    double x = 0, y = 0;
    Plain *next = nullptr;
};
struct Base {
    int id = 0;
    Base *peer = nullptr;
};
struct Derived : Base {
    long v[2] = {};
    Plain *plain = nullptr;
};
struct Left {
    Left *left = nullptr;
    int l = 0;
};
struct Right {
    Right *right = nullptr;
    int r = 0;
};
struct Both : Left, Right {
    Plain *plain = nullptr;
};
struct Shape {
    virtual ~Shape()
    {
    }
    Plain *at = nullptr;
};
struct Circle : Shape {
    double radius = 1;
};
struct Square : Shape {
    Square *inside = nullptr;
    long side = 1;
};
struct Named {
    virtual const char *name()
    {
        return "n";
    }
    virtual ~Named()
    {
    }
    long order = 0;
};
struct NamedCircle : Circle, Named {
    Plain *extra = nullptr;
};
struct Top {
    virtual ~Top()
    {
    }
    long top = 0;
};
struct VirtualLeft : virtual Top {
    Plain *l = nullptr;
};
struct VirtualRight : virtual Top {
    Plain *r = nullptr;
};
struct Bottom : VirtualLeft, VirtualRight {
    Plain *b = nullptr;
};
struct Quiet {
    int quiet = 0;
};
struct QuietLeft : virtual Quiet {
    Plain *l = nullptr;
};
template <class T> struct Tree {
    T value{};
    Tree *left = nullptr, *right = nullptr;
};
struct Outer {
    struct Inner {
        Inner *next = nullptr;
        struct Deep {
            Inner *inner = nullptr;
            int n = 0;
        } deep;
    };
    Inner *inners = nullptr;
    Inner::Deep *deep = nullptr;
};
struct Either {
    int kind = 0;
    union {
        Plain *plain;
        long number;
        double real;
    };
    Either *next = nullptr;
};
struct Bits {
    unsigned a : 3, b : 29;
    Bits *next = nullptr;
    unsigned long c : 48, d : 16;
};
enum class Color : unsigned char { red, black };
enum Kind { small, large };
struct Painted {
    Color color = Color::red;
    Kind kind = large;
    Painted *next = nullptr;
};
struct Flexible {
    int n = 0;
    Plain *items[];
};
struct Owner {
    Plain *plain = nullptr;
    long n = 0;
    ~Owner()
    {
    }
};
struct Functions {
    void (*run)(int) = nullptr;
    int (Base::*member)() = nullptr;
    Functions *next = nullptr;
    void *data = nullptr;
};
struct Loop {
    Loop *self = this;
    std::vector<Loop> inside;
    std::map<int, Loop> named;
};
template <class T, int N> struct Fixed {
    T at[N] = {};
    Fixed *next = nullptr;
};
struct Large {
    char bytes[4096] = {};
    Large *next = nullptr;
};
struct alignas(64) Aligned {
    Plain *plain = nullptr;
    Aligned *next = nullptr;
};
struct Tuples {
    std::tuple<Plain *, int, Base *> tuple;
    std::pair<Plain *, Plain *> pair;
};
struct Choices {
    std::optional<Plain *> maybe;
    std::optional<Derived> derived;
    std::variant<Plain *, long> variant;
};
namespace
{
struct Hidden {
    Hidden *next = nullptr;
    Plain *plain = nullptr;
};
} // namespace
inline namespace v1
{
struct Versioned {
    Versioned *next = nullptr;
};
} // namespace v1
struct Curious {
    std::shared_ptr<Curious> next;
    std::weak_ptr<Curious> back;
    std::string text;
};
struct Shared : std::enable_shared_from_this<Shared> {
    Plain *plain = nullptr;
    long n[5] = {};
};
struct Pimpl {
    struct Impl;
    std::unique_ptr<Impl> impl;
    Pimpl();
    Pimpl(Pimpl &&);
    ~Pimpl();
};
struct Pimpl::Impl {
    Plain *plain = nullptr;
    int n = 0;
};
Pimpl::Pimpl() = default;
Pimpl::Pimpl(Pimpl &&) = default;
Pimpl::~Pimpl() = default;

struct Store {
    Plain *plain = nullptr;
    Base *base = nullptr;
    Both *both = nullptr;
    Right *right = nullptr;
    Named *named = nullptr;
    Top *top = nullptr;
    QuietLeft *quiet = nullptr;
    Tree<int> *tree = nullptr;
    Tree<std::string> *texts = nullptr;
    Outer *outer = nullptr;
    Either *either = nullptr;
    Bits *bits = nullptr;
    Painted *painted = nullptr;
    Flexible *flexible = nullptr;
    Owner *owners = nullptr;
    Functions *functions = nullptr;
    Loop *loop = nullptr;
    Fixed<Base *, 7> *fixed = nullptr;
    Large *large = nullptr;
    Aligned *aligned = nullptr;
    Hidden *hidden = nullptr;
    Versioned *versioned = nullptr;
    Tuples *tuples = nullptr;
    Choices *choices = nullptr;
    Shape **shapes = nullptr;
    Plain *array = nullptr;
    Circle *circles = nullptr;
    void *anything = nullptr;
    std::vector<Plain> vector;
    std::vector<Plain *> pointers;
    std::vector<std::vector<Base>> nested;
    std::vector<std::string> strings;
    std::vector<bool> flags;
    std::vector<double> numbers;
    std::vector<std::unique_ptr<Derived>> owned;
    std::vector<std::shared_ptr<Derived>> shared;
    std::vector<std::shared_ptr<Shared>> together;
    std::list<Plain> list;
    std::list<std::shared_ptr<Shape>> shape_list;
    std::forward_list<Base> forward;
    std::deque<Plain> deque;
    std::deque<Derived *> deque_of_pointers;
    std::map<int, Plain> map;
    std::map<std::string, std::unique_ptr<Plain>> by_name;
    std::multimap<long, Base *> multimap;
    std::set<std::string> set;
    std::multiset<long> multiset;
    std::unordered_map<std::string, Plain *> names;
    std::unordered_map<int, int> pairs;
    std::unordered_map<long, std::list<Plain>> lists;
    std::unordered_set<Plain *> seen;
    std::unordered_multimap<int, Derived> several;
    std::unordered_multiset<std::string> words;
    std::unique_ptr<Plain> one;
    std::unique_ptr<Plain[]> some;
    std::shared_ptr<Curious> curious;
    std::shared_ptr<Plain> kept;
    std::weak_ptr<Plain> weak;
    std::function<int(int)> function;
    std::any any;
    std::optional<std::vector<Plain>> optional;
    std::variant<std::monostate, std::list<Base>, std::vector<Plain>> variant;
    std::priority_queue<long> numbers_first;
    std::priority_queue<std::pair<int, Plain *>> first;
    std::stack<Plain> stack;
    std::queue<Plain *> queue;
    std::valarray<Plain> valarray;
    std::map<int, std::map<int, std::vector<Plain *>>> deep;
    std::array<std::unique_ptr<Painted>, 4> four;
    std::vector<Pimpl> hidden_inside;
    std::tuple<std::unique_ptr<Bits>, std::list<int>> tuple;
};
} // namespace app

template <class T> static T *made(T *block, size_t n = 1)
{
    note(block, typeid(T).name(), n);
    return block;
}
template <class T> static T *made_hidden(T *block)
{
    static const std::string *const name = new std::string(std::string("?_ZTS") + typeid(T).name());
    note(block, name->c_str(), 1);
    return block;
}
template <class T> static void push(T *&list)
{
    T *item = made(new T());
    item->next = list;
    list = item;
}
template <class T> static app::Tree<T> *grow(size_t n)
{
    if (!n)
        return nullptr;
    auto *tree = made(new app::Tree<T>);
    tree->left = grow<T>((n - 1) / 2);
    tree->right = grow<T>(n - 1 - (n - 1) / 2);
    return tree;
}
static app::Plain *plain()
{
    return made(new app::Plain);
}
static std::string words(size_t i)
{
    return "a name that is long enough for the heap " + std::to_string(i);
}

static void classes(app::Store &to, size_t n)
{
    using namespace app;
    to.shapes = made(new Shape *[n], n);
    to.tree = grow<int>(n);
    to.texts = grow<std::string>(n);
    for (size_t i = 0; i < n; i++) {
        push(to.plain);
        push(to.either);
        if (i % 2)
            to.either->plain = made_hidden(new Plain);
        push(to.bits);
        push(to.painted);
        push(to.functions);
        push(to.fixed);
        push(to.hidden);
        to.hidden->plain = plain();
        push(to.versioned);
        push(to.aligned);
        Derived *derived = made(new Derived);
        derived->peer = to.base;
        derived->plain = plain();
        to.base = derived;
        auto *both = made(new Both);
        both->left = to.both;
        both->right = to.right;
        both->plain = plain();
        to.both = both;
        to.right = both;
        Circle *circle = made(i % 2 ? new Circle : made(new NamedCircle));
        circle->at = plain();
        if (i % 2 == 0)
            made(static_cast<NamedCircle *>(circle))->extra = plain();
        to.shapes[i] = circle;
        if (i % 5 == 0) {
            Square *square = made(new Square);
            square->inside = made(new Square);
            to.shapes[i] = square;
        }
    }
    for (size_t i = 0; i < n / 50 + 1; i++)
        push(to.large);
    to.named = made(new NamedCircle);
    auto *bottom = made(new Bottom);
    bottom->b = plain();
    bottom->l = plain();
    bottom->r = plain();
    to.top = bottom;
    to.quiet = made(new QuietLeft);
    to.quiet->l = plain();
    to.outer = made(new Outer);
    to.outer->deep = made(new Outer::Inner::Deep);
    for (size_t i = 0; i < n; i++)
        push(to.outer->inners);
    to.flexible = static_cast<Flexible *>(
        note(::operator new(sizeof(Flexible) + n * sizeof(Plain *)), typeid(Flexible).name(), 1));
    for (size_t i = 0; i < n; i++)
        to.flexible->items[i] = plain();
    to.owners = new Owner[n];
    note(reinterpret_cast<char *>(to.owners) - 8, typeid(Owner).name(), n);
    for (size_t i = 0; i < n; i++)
        to.owners[i].plain = plain();
    to.circles = new Circle[n];
    note(reinterpret_cast<char *>(to.circles) - 8, typeid(Circle).name(), n);
    to.array = made(new Plain[n], n);
    to.array[n / 2].next = plain();
    to.loop = made(new Loop);
    to.loop->inside.resize(5);
    to.loop->named[1].inside.resize(3);
    to.anything = made_hidden(new Derived);
    to.tuples = made(new Tuples{{plain(), 3, made(new Base)}, {plain(), plain()}});
    to.choices = made(new Choices{plain(), Derived{}, made_hidden(new Plain)});
}

static void sequences(app::Store &to, size_t n)
{
    using namespace app;
    for (size_t i = 0; i < n; i++) {
        to.vector.push_back(Plain{});
        to.vector.back().next = plain();
        to.pointers.push_back(plain());
        to.nested.emplace_back(2 + i % 3);
        to.strings.push_back(words(i));
        to.flags.push_back(i % 2);
        to.numbers.push_back(1);
        to.owned.emplace_back(made(new Derived));
        to.shared.emplace_back(made(new Derived));
        to.together.push_back(std::make_shared<Shared>());
        to.together.back()->plain = plain();
        to.list.push_back(Plain{});
        to.shape_list.push_back(std::make_shared<Circle>());
        to.shape_list.back()->at = plain();
        to.forward.push_front(Base{});
        to.forward.front().peer = made(new Base);
        to.deque.push_back(Plain{});
        to.deque.back().next = plain();
        to.deque_of_pointers.push_back(made(new Derived));
        to.first.push({int(i), plain()});
        to.numbers_first.push(long(i));
        to.stack.push(Plain{});
        to.queue.push(plain());
        to.hidden_inside.emplace_back();
        to.hidden_inside.back().impl.reset(made(new Pimpl::Impl));
        to.hidden_inside.back().impl->plain = plain();
    }
    to.optional.emplace(n);
    to.variant = std::list<Base>(n);
    for (Base &base : std::get<1>(to.variant)) /* which of several it is nobody can know */
        note_gone(reinterpret_cast<char *>(&base) - 16);
    to.valarray.resize(n);
    made(&to.valarray[0], n);
    std::get<1>(to.tuple).resize(n);
}

static void associations(app::Store &to, size_t n)
{
    using namespace app;
    for (size_t i = 0; i < n; i++) {
        to.map[int(i)].next = plain();
        to.by_name[words(i)].reset(plain());
        to.multimap.insert({long(i % 7), made(new Base)});
        to.set.insert(words(i));
        to.multiset.insert(long(i % 9));
        to.names[words(i)] = plain();
        to.pairs[int(i)] = 7;
        to.lists[long(i)].resize(2);
        to.seen.insert(plain());
        to.several.insert({int(i % 100), Derived{}});
        to.words.insert(words(i % 50));
        to.deep[int(i % 20)][int(i)].push_back(plain());
    }
}

static void pointers(app::Store &to, size_t n)
{
    using namespace app;
    to.one.reset(plain());
    to.some.reset(made(new Plain[n], n));
    for (size_t i = 0; i < n; i++) {
        auto next = std::make_shared<Curious>();
        next->text = words(i);
        if (to.curious)
            to.curious->back = next;
        next->next = std::move(to.curious);
        to.curious = next;
    }
    to.kept.reset(plain());
    to.weak = to.kept;
    Plain *point = made_hidden(new Plain); /* by the function alone */
    long many[4] = {1, 2, 3, 4};
    to.function = [point, many](int k) { return int(many[k]) + (point != nullptr); };
    struct Local {
        Local *next = nullptr;
        Plain *plain = nullptr;
    };
    static Local *locals;
    for (size_t i = 0; i < n; i++)
        push(locals);
    auto lambda = [point, n] { return point && n; };
    static decltype(lambda) *on_heap = made(new decltype(lambda)(lambda));
    (void)on_heap;
    to.any = std::string("any");
    for (auto &painted : to.four)
        painted.reset(made(new Painted));
    std::get<0>(to.tuple).reset(made(new Bits()));
}

app::Store store;
static std::unique_ptr<app::Store> second;

int main(int argc, char **argv)
{
    const size_t n = argc > 2 ? std::stoul(argv[2]) : 100;
    second.reset(made(new app::Store));
    for (app::Store *to : {&store, second.get()}) {
        classes(*to, n);
        sequences(*to, n);
        associations(*to, n);
        pointers(*to, n);
    }
    return note_ready(argv[1], "_ZTS");
}
