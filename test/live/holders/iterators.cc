// iterators.cc - threads that go over shared containers and stand still in their midst, each with
// an iterator and some text of its own.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "truth_std.h"

namespace
{

enum { THREADS = 20, STEPS = 15000 };

struct Item {
    std::string name;
    std::vector<int> prices;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, name, prices);
    }
};

std::map<uint64_t, Item> g_items;
std::list<std::string> g_events;
std::unordered_map<std::string, std::vector<std::string>> g_tags;
std::mutex g_lock;
std::condition_variable g_changed;
int g_at_rest;
bool g_end;

struct Cursor {
    std::map<uint64_t, Item>::iterator item;
    std::list<std::string>::iterator event;
    std::vector<std::string> seen;
    std::string text;
};
const Cursor *g_cursors[THREADS]; // on their stacks

uint64_t random(uint64_t &state)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 11;
}

void step(uint64_t &state, Cursor &cursor)
{
    std::lock_guard<std::mutex> hold(g_lock);
    uint64_t key = random(state) % 30000;
    switch (random(state) % 8) {
    case 0:
        g_items.erase(key);
        break;
    case 1:
    case 2: {
        Item &item = g_items[key];
        item.name = "item " + std::to_string(key) + (key % 3 ? "" : " of the larger kind");
        item.prices.assign(random(state) % 12, int(key));
        break;
    }
    case 3:
        g_events.push_back("item " + std::to_string(key) + " was looked at by somebody");
        if (g_events.size() > 12000)
            g_events.pop_front();
        break;
    case 4: {
        auto &tags = g_tags["tag" + std::to_string(key % 2500)];
        tags.push_back(std::string(key % 40, 't'));
        if (tags.size() > 10)
            tags.erase(tags.begin(), tags.begin() + 5);
        break;
    }
    case 5:
        g_tags.erase("tag" + std::to_string(key % 2500));
        break;
    default: {
        auto found = g_items.lower_bound(key);
        cursor.text = found == g_items.end() ? "none" : found->second.name;
        cursor.seen.push_back(cursor.text);
        if (cursor.seen.size() > 100)
            cursor.seen.erase(cursor.seen.begin(), cursor.seen.begin() + 60);
    }
    }
}

void work(int number)
{
    uint64_t state = 0x2545f4914f6cdd1du * uint64_t(number + 1);
    Cursor cursor;
    for (int i = 0; i < STEPS; i++)
        step(state, cursor);
    std::unique_lock<std::mutex> hold(g_lock);
    g_at_rest++;
    g_changed.notify_all();
    g_changed.wait(hold, [] { return g_at_rest >= THREADS; });
    // Nothing changes any more: each takes its place.
    cursor.item = std::next(g_items.begin(), long(random(state) % g_items.size()));
    cursor.event = std::next(g_events.begin(), long(random(state) % g_events.size()));
    g_cursors[number] = &cursor;
    g_at_rest++;
    g_changed.notify_all();
    g_changed.wait(hold, [] { return g_end; });
}

void tell(void *)
{
    TRUTH_ROOT(g_items);
    TRUTH_ROOT(g_events);
    TRUTH_ROOT(g_tags);
    // From any node links lead to all.
    truth_tell(g_items, {{"g_items"}, {"cursor"}});
    truth_tell(g_events, {{"g_events"}, {"cursor"}});
    truth_tell(g_tags, {{"g_tags"}, {}});
    for (const Cursor *cursor : g_cursors) {
        truth_root("cursor", cursor, sizeof *cursor);
        truth_word(&cursor->item);
        truth_word(&cursor->event);
        truth_tell({{"cursor"}, {}}, cursor->seen, cursor->text);
    }
}

} // namespace

int main(int argc, char **argv)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(work, i);
    {
        std::unique_lock<std::mutex> hold(g_lock);
        g_changed.wait(hold, [] { return g_at_rest == 2 * THREADS; });
    }
    truth_rest(argc, argv, tell, nullptr);
    _exit(0);
}
