/* u_tell.h - walks of the programs u_*: a block with its words, for one root after another.
 *
 * A walk is written once, with a `struct tell_as` that says for whom: the owner's walk tells
 * the words, too, a borrower's walk only the blocks. For C++ there is `Tell`, which knows
 * the standard containers of libstdc++ and libc++.
 */
#ifndef HX_TEST_HOLDERS_U_TELL_H
#define HX_TEST_HOLDERS_U_TELL_H

#include "truth.h"

#include <stdbool.h>

struct tell_as {
    const char *name;
    bool own;
    bool words;
};

/* Where roots are: a word that points back into one is no pointer into the heap. */
static struct {
    uintptr_t from[16], to[16];
    unsigned count;
} tell_roots;

static inline void tell_root(const char *name, const volatile void *at, size_t size)
{
    truth_root(name, at, size);
    tell_roots.from[tell_roots.count] = (uintptr_t)at;
    tell_roots.to[tell_roots.count++] = (uintptr_t)at + size;
}

/* A variable whose words are all told. */
#define TELL_ROOT(variable)                                                                        \
    (tell_root(#variable, &(variable), sizeof(variable)), truth_words(&(variable)))

static inline void tell_block(const struct tell_as *t, const void *block)
{
    if (t->own)
        truth_owns(block, t->name);
    else
        truth_borrows(block, t->name);
}

static inline void tell_word(const struct tell_as *t, const volatile void *at)
{
    uintptr_t value = *(const volatile uintptr_t *)at;
    if (!t->words || !value)
        return;
    for (unsigned i = 0; i < tell_roots.count; i++)
        if (value >= tell_roots.from[i] && value < tell_roots.to[i])
            return;
    truth_word((const void *)at);
}

static inline void tell_words(const struct tell_as *t, const void *block)
{
    if (t->words)
        truth_words(block);
}

#ifdef __cplusplus

#include <deque>
#include <functional>
#include <malloc.h>
#include <list>
#include <memory>
#include <string>
#include <vector>

struct Tell : tell_as {
    Tell(const char *root, bool owns, bool with_words) : tell_as{root, owns, with_words}
    {
    }
    static Tell owner(const char *root)
    {
        return Tell(root, true, true);
    }
    /* A second owner: the words were told with the first. */
    static Tell also(const char *root)
    {
        return Tell(root, true, false);
    }
    static Tell borrower(const char *root)
    {
        return Tell(root, false, false);
    }

    void block(const void *p) const
    {
        tell_block(this, p);
    }
    void word(const volatile void *at) const
    {
        tell_word(this, at);
    }
    void complete(const void *p) const
    {
        tell_words(this, p);
    }
    static void *at(const volatile void *object, int word)
    {
        return ((void *const volatile *)object)[word];
    }
    void nth(const volatile void *object, int word_index) const
    {
        word((void *const volatile *)object + word_index);
    }

    void string(const std::string &s) const
    {
        const char *data = s.data(), *object = reinterpret_cast<const char *>(&s);
        for (int i = 0; i < int(sizeof s / sizeof(void *)); i++)
            if (at(&s, i) == data)
                nth(&s, i);
        if (data < object || data >= object + sizeof s)
            block(data);
    }
    /* An end of a buffer, which may lie behind its block: then it says nothing of a block. */
    void end(const volatile void *object, int word_index, void *buffer) const
    {
        if (at(object, word_index) < static_cast<char *>(buffer) + malloc_usable_size(buffer))
            nth(object, word_index);
    }
    /* The buffer with its words; what elements hold is the caller's. */
    template <class T> void vector(const std::vector<T> &v) const
    {
        if (v.capacity() == 0)
            return;
        block(v.data());
        nth(&v, 0);
        end(&v, 1, at(&v, 0));
        end(&v, 2, at(&v, 0));
    }
    void vector(const std::vector<bool> &v) const
    {
        if (v.capacity() == 0)
            return;
        block(at(&v, 0));
        nth(&v, 0);
#ifdef __GLIBCXX__
        end(&v, 2, at(&v, 0));
        end(&v, 4, at(&v, 0));
#endif
    }
    template <class T> void shared(const std::shared_ptr<T> &p) const
    {
        nth(&p, 0);
        nth(&p, 1);
        block(at(&p, 0));
        block(at(&p, 1));
    }
    /* Holds the control block, and with std::make_shared the object's memory. */
    template <class T> void weak(const std::weak_ptr<T> &p) const
    {
        if (!p.expired())
            nth(&p, 0);
        nth(&p, 1);
        block(at(&p, 1));
    }
    template <class T> void unique(const std::unique_ptr<T> &p) const
    {
        word(&p);
        block(p.get());
    }
    template <class T> void list(const std::list<T> &l) const
    {
        nth(&l, 0);
        nth(&l, 1);
    }
    void list_node(const void *element) const
    {
        const char *node = static_cast<const char *>(element) - 2 * sizeof(void *);
        block(node);
        nth(node, 0);
        nth(node, 1);
    }
    /* Of std::set and std::map and their multi variants; elements are aligned to 8. */
    template <class M> void tree(const M &m) const
    {
#ifdef __GLIBCXX__
        nth(&m, 2);
        nth(&m, 3);
        nth(&m, 4);
#else
        nth(&m, 0);
        nth(&m, 1);
#endif
    }
    void tree_node(const void *element) const
    {
        const char *node = static_cast<const char *>(element) - 4 * sizeof(void *);
        block(node);
#ifdef __GLIBCXX__
        nth(node, 1);
        nth(node, 2);
        nth(node, 3);
#else
        nth(node, 0);
        nth(node, 1);
        nth(node, 2);
#endif
    }
    template <class M> void hash(const M &m) const
    {
        void *buckets = at(&m, 0);
        nth(&m, 0);
        nth(&m, 2);
        const char *object = reinterpret_cast<const char *>(&m);
        if (!buckets || ((char *)buckets >= object && (char *)buckets < object + sizeof m))
            return; /* one bucket, within the object */
        block(buckets);
        for (size_t i = 0; i < m.bucket_count(); i++)
            nth(buckets, int(i));
        complete(buckets);
    }
    void hash_node(const void *element) const
    {
#ifdef __GLIBCXX__
        const char *node = static_cast<const char *>(element) - sizeof(void *);
#else
        const char *node = static_cast<const char *>(element) - 2 * sizeof(void *);
#endif
        block(node);
        nth(node, 0);
    }
    template <class T> void deque(const std::deque<T> &d) const
    {
        void *map = at(&d, 0);
        if (!map)
            return;
        block(map);
        nth(&d, 0);
#ifdef __GLIBCXX__
        for (int i : {2, 3, 5, 6, 7, 9})
            nth(&d, i);
        end(&d, 4, at(&d, 3));
        end(&d, 8, at(&d, 7));
        for (void **p = static_cast<void **>(at(&d, 5)); p <= at(&d, 9); p++) {
            word(p);
            block(*p);
        }
#else
        nth(&d, 1);
        end(&d, 2, map);
        end(&d, 3, map);
        for (void **p = static_cast<void **>(at(&d, 1)); p < at(&d, 2); p++) {
            word(p);
            block(*p);
        }
#endif
        complete(map);
    }
    /* A std::function whose target is an F; the target, or nullptr. */
    template <class F, class S> const F *function(const std::function<S> &f) const
    {
        const F *target = f.template target<F>();
        if (!target)
            return nullptr;
        const char *object = reinterpret_cast<const char *>(&f);
        const char *to = reinterpret_cast<const char *>(target);
        for (int i = 0; i < int(sizeof f / sizeof(void *)); i++)
            if (at(&f, i) == to || at(&f, i) == to - sizeof(void *))
                nth(&f, i);
        if (to < object || to >= object + sizeof f)
            block(to);
        return target;
    }
};

#endif
#endif
