// truth_std.h - truth.h for standard containers, of libstdc++ and of libc++.
//
// truth_tell(x, by) tells all blocks that x owns, as held by `by`, and all genuine pointers
// in x and in them. A class of the program's own has
//
//   void tell(const truth_holders &by) const { truth_tell(by, name, items, next); }
//
// that names every member in which a pointer may be. Of a raw pointer, a string_view or a weak_ptr
// only the word is told: who borrows what it leads to is told by the program, truth_tell_at(by,
// item), after its owner. No cycles of shared_ptr.
#ifndef HX_TEST_HOLDERS_TRUTH_STD_H
#define HX_TEST_HOLDERS_TRUTH_STD_H

#include "truth.h"

#include <array>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

template <class T, template <class...> class C> inline constexpr bool truth_is = false;
template <template <class...> class C, class... A>
inline constexpr bool truth_is<C<A...>, C> = true;
template <class T> inline constexpr bool truth_is_array = false;
template <class T, size_t n> inline constexpr bool truth_is_array<std::array<T, n>> = true;
template <class T> inline constexpr bool truth_is_unbounded = false;
template <class T, class D>
inline constexpr bool truth_is_unbounded<std::unique_ptr<T[], D>> = true;
template <class T, class = void> inline constexpr bool truth_tells = false;
template <class T>
inline constexpr bool truth_tells<T, std::void_t<decltype(std::declval<const T &>().tell(
                                         std::declval<const truth_holders &>()))>> = true;

#ifdef _LIBCPP_VERSION
enum { TRUTH_HASH_NODE = 16 };
#else
enum { TRUTH_HASH_NODE = 8 };
#endif
enum { TRUTH_LIST_NODE = 16, TRUTH_FORWARD_NODE = 8 };

template <class T, class = void> inline constexpr bool truth_lends = false;
template <class T> inline constexpr bool truth_lends<T, std::void_t<typename T::truth_lent>> = true;

template <class T> void truth_tell(const T &x, const truth_holders &by);

template <class... T> void truth_tell(const truth_holders &by, const T &...members)
{
    (truth_tell(members, by), ...);
}

// A block whose words are all told by the caller.
inline void truth_block(const void *block, const truth_holders &by)
{
    truth_held(block, &by);
    truth_words(block);
}

// What a raw pointer leads to, told as a block of its own.
template <class T> void truth_tell_at(const truth_holders &by, const T *x)
{
    if (!x)
        return;
    truth_block(x, by);
    truth_tell(*x, by);
}

inline const void *const *truth_words_of(const void *x)
{
    return static_cast<const void *const *>(x);
}

inline void truth_word_range(const void *x, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++)
        truth_word(truth_words_of(x) + i);
}

// A node with `links` pointers, `ahead` bytes before its value.
template <class T>
void truth_node(const T &value, size_t ahead, size_t first, size_t links, const truth_holders &by)
{
    const char *node = reinterpret_cast<const char *>(std::addressof(value)) - ahead;
    truth_block(node, by);
    truth_word_range(node, first, links);
    truth_tell(value, by);
}

template <class T> void truth_hash(const T &x, const truth_holders &by)
{
    truth_word_range(&x, 0, 1); // the buckets
    truth_word_range(&x, 2, 1); // the first node
    const void *buckets = truth_words_of(&x)[0];
    bool inside =
        buckets >= static_cast<const void *>(&x) && buckets < static_cast<const void *>(&x + 1);
    if (buckets && !inside)
        truth_block(buckets, by);
    if (buckets)
        truth_word_range(buckets, 0, x.bucket_count());
    for (const auto &value : x)
        truth_node(value, TRUTH_HASH_NODE, 0, 1, by);
}

template <class T> void truth_tree(const T &x, const truth_holders &by)
{
#ifdef _LIBCPP_VERSION
    // Three links, a colour of one byte, and the value where its alignment lets it begin.
    constexpr size_t align = alignof(typename T::value_type),
                     ahead = (25 + align - 1) / align * align;
    truth_word_range(&x, 0, 2); // leftmost, root
    for (const auto &value : x)
        truth_node(value, ahead, 0, 3, by);
#else
    truth_word_range(&x, 2, 3); // root, leftmost, rightmost
    for (const auto &value : x)
        truth_node(value, 32, 1, 3, by);
#endif
}

template <class T, class A> void truth_deque(const std::deque<T, A> &x, const truth_holders &by)
{
    using word = const char *const *;
    const word w = reinterpret_cast<word>(&x);
#ifdef _LIBCPP_VERSION
    // map {first, begin, end, end_cap}, start, size: every block of the map is there.
    truth_word_range(&x, 0, 4);
    word from = reinterpret_cast<word>(w[1]), to = reinterpret_cast<word>(w[2]);
    if (w[0])
        truth_block(w[0], by);
#else
    // map, its size, start {cur, first, last, node}, finish.
    truth_word_range(&x, 0, 1);
    truth_word_range(&x, 2, 8);
    word from = reinterpret_cast<word>(w[5]), to = reinterpret_cast<word>(w[9]) + 1;
    truth_block(w[0], by);
#endif
    for (word at = from; at < to; at++) {
        truth_word(at);
        truth_block(*at, by);
    }
    for (const auto &value : x)
        truth_tell(value, by);
}

template <class T> struct truth_inside : T {
    static const auto &of(const T &x)
    {
        return x.*(&truth_inside::c);
    }
};

template <class T> void truth_tell(const T &x, const truth_holders &by)
{
    static_cast<void>(by);
    if constexpr (truth_tells<T>)
        x.tell(by);
    else if constexpr (std::is_pointer_v<T>) {
        truth_word(&x);
        if constexpr (truth_lends<std::remove_cv_t<std::remove_pointer_t<T>>>)
            for (const char *const *name = by.owners; *name; name++)
                truth_tell_at({{}, {*name}}, x);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_empty_v<T>)
        return;
    else if constexpr (truth_is<T, std::basic_string>) {
        // libstdc++ has the pointer first, libc++ last; short text lies within.
        const char *data = x.data(), *self = reinterpret_cast<const char *>(&x);
        for (size_t i = 0; i < sizeof x / sizeof(void *); i++)
            if (truth_words_of(&x)[i] == data)
                truth_word(truth_words_of(&x) + i);
        if (data < self || data >= self + sizeof x)
            truth_block(data, by);
    } else if constexpr (truth_is<T, std::basic_string_view>) {
        for (size_t i = 0; i < 2; i++)
            if (truth_words_of(&x)[i] == x.data())
                truth_word(truth_words_of(&x) + i);
    } else if constexpr (truth_is<T, std::vector>) {
        constexpr bool bits = std::is_same_v<typename T::value_type, bool>;
        truth_word_range(&x, 0, bits ? 1 : 3);
        if (x.capacity())
            truth_block(truth_words_of(&x)[0], by);
        if constexpr (!bits)
            for (const auto &value : x)
                truth_tell(value, by);
    } else if constexpr (truth_is<T, std::deque>)
        truth_deque(x, by);
    else if constexpr (truth_is<T, std::list>) {
        truth_word_range(&x, 0, 2);
        for (const auto &value : x)
            truth_node(value, TRUTH_LIST_NODE, 0, 2, by);
    } else if constexpr (truth_is<T, std::forward_list>) {
        truth_word_range(&x, 0, 1);
        for (const auto &value : x)
            truth_node(value, TRUTH_FORWARD_NODE, 0, 1, by);
    } else if constexpr (truth_is<T, std::map> || truth_is<T, std::set> ||
                         truth_is<T, std::multimap> || truth_is<T, std::multiset>)
        truth_tree(x, by);
    else if constexpr (truth_is<T, std::unordered_map> || truth_is<T, std::unordered_set> ||
                       truth_is<T, std::unordered_multimap> || truth_is<T, std::unordered_multiset>)
        truth_hash(x, by);
    else if constexpr (truth_is<T, std::priority_queue> || truth_is<T, std::queue> ||
                       truth_is<T, std::stack>)
        truth_tell(truth_inside<T>::of(x), by);
    else if constexpr (truth_is<T, std::pair>)
        truth_tell(by, x.first, x.second);
    else if constexpr (truth_is<T, std::tuple>)
        std::apply([&](const auto &...member) { truth_tell(by, member...); }, x);
    else if constexpr (truth_is<T, std::optional>) {
        if (x)
            truth_tell(*x, by);
    } else if constexpr (truth_is<T, std::variant>)
        std::visit([&](const auto &value) { truth_tell(value, by); }, x);
    else if constexpr (truth_is_array<T>) {
        for (const auto &value : x)
            truth_tell(value, by);
    } else if constexpr (truth_is<T, std::unique_ptr>) {
        truth_word(&x);
        // Of an array the length is unknown: its owner tells what is in it.
        if constexpr (truth_is_unbounded<T>)
            truth_held(x.get(), &by);
        else
            truth_tell_at(by, x.get());
    } else if constexpr (truth_is<T, std::shared_ptr>) {
        truth_word_range(&x, 0, 2);
        if (x) {
            truth_block(truth_words_of(&x)[1], by); // the counts, and after make_shared the object
            truth_tell_at(by, x.get());
        }
    } else if constexpr (truth_is<T, std::weak_ptr>)
        truth_word_range(&x, 0, 2);
    else
        static_assert(truth_tells<T>, "truth_std.h: a type that it does not know");
}

#endif
