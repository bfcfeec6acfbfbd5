/* u_lru.cc - a cache of documents: least recently used first, an index by key, a set of all keys
 * that were ever asked for, and a ring of the last accesses, which keeps what it handed out.
 */
#include "u_tell.h"

#include <set>
#include <string_view>
#include <unordered_map>

struct Blob {
    std::string body;
    std::vector<std::string> tags;
    uint64_t version = 0;
};

struct Entry {
    std::string key;
    std::shared_ptr<Blob> value;
    uint64_t hits = 0;
    bool hot = false;
};

class Cache
{
  public:
    using Order = std::list<Entry>;

    std::shared_ptr<Blob> find(const std::string &key);
    void put(const std::string &key, std::shared_ptr<Blob> value);
    void erase(const std::string &key);
    void rank();
    void tell(const Tell &t) const;

  private:
    void drop(Order::iterator entry);

    Order order;
    std::unordered_map<std::string_view, Order::iterator> index; /* keys are views of the entry's */
    std::set<std::string> pinned;
    size_t bytes = 0;
};

struct Access {
    std::string key;
    std::shared_ptr<const Blob> value;
    uint64_t when = 0;
};

struct Ring {
    std::vector<Access> slots = std::vector<Access>(4096);
    size_t head = 0, used = 0;

    void push(Access access)
    {
        if (used == slots.size())
            pop();
        slots[(head + used++) % slots.size()] = std::move(access);
    }
    void pop()
    {
        slots[head].value.reset();
        head = (head + 1) % slots.size();
        used--;
    }
};

static std::unique_ptr<Cache> g_cache;
static std::vector<Cache::Order::iterator> g_hot;
static Ring g_recent;
static std::set<std::string> g_seen;
static uint64_t g_now;

void Cache::drop(Order::iterator entry)
{
    if (entry->hot)
        for (size_t i = 0; i < g_hot.size(); i++)
            if (g_hot[i] == entry) {
                g_hot[i] = g_hot.back();
                g_hot.pop_back();
                break;
            }
    bytes -= entry->value->body.size();
    index.erase(entry->key);
    pinned.erase(entry->key);
    order.erase(entry);
}

std::shared_ptr<Blob> Cache::find(const std::string &key)
{
    auto found = index.find(key);
    if (found == index.end())
        return nullptr;
    order.splice(order.begin(), order, found->second);
    found->second->hits++;
    return found->second->value;
}

void Cache::put(const std::string &key, std::shared_ptr<Blob> value)
{
    erase(key);
    bytes += value->body.size();
    order.push_front({key, std::move(value)});
    index.emplace(order.front().key, order.begin());
    if (truth_random(40) == 0)
        pinned.insert(key);
    while (bytes > 5000000) {
        auto last = std::prev(order.end());
        if (pinned.count(last->key)) {
            pinned.erase(last->key);
            order.splice(order.begin(), order, last);
        } else {
            drop(last);
        }
    }
}

void Cache::erase(const std::string &key)
{
    auto found = index.find(key);
    if (found != index.end())
        drop(found->second);
}

void Cache::rank()
{
    for (auto &entry : g_hot)
        entry->hot = false;
    g_hot.clear();
    for (auto i = order.begin(); i != order.end() && g_hot.size() < 500; ++i)
        if (i->hits > 6) {
            i->hot = true;
            g_hot.push_back(i);
        }
}

static std::string some_key()
{
    uint64_t n = truth_random(truth_random(3) ? 12000 : 60000);
    return (n % 3 ? "/p/" : "/static/images/products/") + std::to_string(n) +
           (n % 5 ? "" : ".html");
}

static std::shared_ptr<Blob> load(const std::string &key)
{
    auto blob = std::make_shared<Blob>();
    blob->body = "<title>" + key + "</title>";
    blob->body.append(truth_random(700), 'x');
    blob->version = g_now;
    for (uint64_t i = truth_random(4); i > 0; i--)
        blob->tags.push_back(i & 1 ? "tag-" + std::to_string(truth_random(100))
                                   : "collection-of-products-" + std::to_string(truth_random(100)));
    return blob;
}

static void churn()
{
    g_cache = std::make_unique<Cache>();
    for (g_now = 0; g_now < 300000; g_now++) {
        std::string key = some_key();
        uint64_t what = truth_random(100);
        if (what < 3) {
            g_cache->erase(key);
        } else if (what < 8) {
            auto blob = load(key);
            g_cache->put(key, blob);
        } else if (what < 10) {
            if (auto blob = g_cache->find(key))
                blob->tags.push_back("updated at " + std::to_string(g_now));
        } else {
            auto blob = g_cache->find(key);
            if (!blob) {
                blob = load(key);
                g_cache->put(key, blob);
                g_seen.insert(key);
                if (g_seen.size() > 14000)
                    g_seen.erase(g_seen.lower_bound(key));
            }
            if (truth_random(4) == 0)
                g_recent.push({std::move(key), std::move(blob), g_now});
        }
        if (g_now % 1000 == 999)
            g_cache->rank();
        if (g_now % 30000 == 29999)
            while (g_recent.used > 1000)
                g_recent.pop();
    }
    for (size_t i = 0; i < 200; i++)
        g_recent.pop();
}

/* --- truth -------------------------------------------------------------------------- */

template <class B> static void tell_blob(const Tell &t, const std::shared_ptr<B> &p)
{
    t.shared(p);
    t.string(p->body);
    t.vector(p->tags);
    for (const auto &tag : p->tags)
        t.string(tag);
}

void Cache::tell(const Tell &t) const
{
    t.list(order);
    for (const Entry &entry : order) {
        t.list_node(&entry);
        t.string(entry.key);
        tell_blob(t, entry.value);
        t.complete(&entry);
    }
    t.hash(index);
    for (const auto &i : index) {
        t.hash_node(&i);
        t.nth(&i.first, Tell::at(&i.first, 0) == i.first.data() ? 0 : 1);
        t.word(&i.second);
        t.complete(&i);
    }
    t.tree(pinned);
    for (const auto &key : pinned) {
        t.tree_node(&key);
        t.string(key);
        t.complete(&key);
    }
}

static void tell(void *)
{
    TELL_ROOT(g_cache);
    TELL_ROOT(g_hot);
    TELL_ROOT(g_recent);
    TELL_ROOT(g_seen);

    Tell cache = Tell::owner("g_cache");
    cache.unique(g_cache);
    g_cache->tell(cache);
    cache.complete(g_cache.get());

    /* An entry leads to its neighbours and so to the whole cache. */
    Tell hot = Tell::owner("g_hot");
    hot.vector(g_hot);
    for (const auto &i : g_hot)
        hot.word(&i);
    hot.complete(g_hot.data());
    Tell borrowed = Tell::borrower("g_hot");
    borrowed.block(g_cache.get());
    g_cache->tell(borrowed);

    Tell recent = Tell::owner("g_recent");
    recent.vector(g_recent.slots);
    for (const Access &a : g_recent.slots) {
        recent.string(a.key);
        if (!a.value)
            continue;
        /* Some are still in the cache, which told their words; twice does no harm. */
        tell_blob(recent, a.value);
    }

    Tell seen = Tell::owner("g_seen");
    seen.tree(g_seen);
    for (const auto &key : g_seen) {
        seen.tree_node(&key);
        seen.string(key);
        seen.complete(&key);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
