// steady_lru.cc - a cache that churns and in which nothing changes hands: its entries in the order
// of their use, an index that borrows them, keys that are asked for often, and a ring of the last
// ones.
#include "steady.h"

#include <list>
#include <mutex>
#include <set>
#include <unordered_map>

struct Entry {
    std::string key, value;
    std::vector<uint32_t> parts;
};

static std::list<Entry> g_entries; // the least recently used last
static std::unordered_map<std::string, std::list<Entry>::iterator> g_index;
static std::set<std::string> g_often;
static std::vector<std::string> g_ring(4096);
static uint64_t g_asked;
static std::mutex lock;

static void ask(Dice &dice)
{
    std::lock_guard<std::mutex> guard(lock);
    uint64_t n = dice(2) ? dice(3000) : dice(40000);
    std::string key = "key " + std::to_string(n) + (n % 3 ? "" : " that has a longer name");
    g_ring[g_asked++ % g_ring.size()] = key;
    if (dice(4) == 0)
        g_often.insert(key);
    if (g_often.size() > 6000)
        g_often.erase(g_often.begin());
    auto found = g_index.find(key);
    if (found != g_index.end()) {
        g_entries.splice(g_entries.begin(), g_entries, found->second);
        if (dice(20) == 0)
            found->second->value = words(dice, "another value ");
        return;
    }
    g_entries.push_front({key, words(dice, "value "), std::vector<uint32_t>(dice(60))});
    g_index[key] = g_entries.begin();
    if (g_entries.size() > 16000) {
        g_index.erase(g_entries.back().key);
        g_entries.pop_back();
    }
}

int main()
{
    live_steadily(2, ask);
}
