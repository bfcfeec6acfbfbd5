/* u_world.cc - a game's world: entities with their components in arrays, a grid of who is where, a
 * queue of events whose actions hold what they will do, meshes and sounds that many share.
 */
#include "u_tell.h"

#include <array>
#include <queue>
#include <unordered_map>

struct Mesh {
    std::string path;
    std::vector<float> points;
    std::vector<uint16_t> triangles;
};

struct Item {
    std::string name;
    uint32_t count;
};

struct Handle {
    uint32_t slot, generation;
};

struct Entity {
    uint32_t slot = 0, generation = 0;
    std::string name;
    std::shared_ptr<Mesh> mesh;
    std::vector<Item> inventory;
    Entity *leader = nullptr;
    std::vector<Entity *> followers;
    std::unique_ptr<std::array<float, 16>> bones;
    int cell = -1;
};

struct Effect {
    std::string name;
    std::vector<float> curve;
    std::shared_ptr<Mesh> mesh;
};

struct World;

/* Actions of events. */
struct Hit {
    Handle whom;
    float strength;
    void operator()(World &world) const;
};
struct Play {
    std::shared_ptr<Effect> effect;
    Handle at;
    void operator()(World &world) const;
};
struct Say {
    std::string text;
    Handle who;
    void operator()(World &world) const;
};

struct Event {
    double due;
    std::function<void(World &)> action;
    bool operator<(const Event &other) const
    {
        return due > other.due;
    }
};

struct Events : std::priority_queue<Event> {
    const std::vector<Event> &all() const
    {
        return c;
    }
};

struct World {
    std::vector<std::unique_ptr<Entity>> entities; /* by slot; null where free */
    std::vector<uint32_t> generations, free_slots;
    std::vector<float> x, y, health; /* by slot */
    std::vector<uint8_t> kind;
    size_t alive = 0;
};

enum { SIDE = 64, MESHES = 400 };

static World g_world;
static std::vector<std::vector<Entity *>> g_grid(SIDE *SIDE);
static Events g_events;
static std::unordered_map<std::string, std::shared_ptr<Mesh>> g_meshes;
static std::deque<std::string> g_chat;
static std::vector<Entity *> g_selection;
static double g_time;

static float uniform(float below)
{
    return float(truth_random(1u << 20)) / float(1u << 20) * below;
}

static std::shared_ptr<Mesh> mesh(uint64_t n)
{
    std::string path = (n % 2 ? "m/" : "assets/meshes/creatures/") + std::to_string(n) + ".mesh";
    auto &m = g_meshes[path];
    if (!m) {
        m = std::make_shared<Mesh>();
        m->path = path;
        m->points.resize(60 + truth_random(600), 1.0f);
        m->triangles.resize(m->points.size() / 3, 7);
    }
    return m;
}

static Entity *any()
{
    if (g_world.alive == 0)
        return nullptr;
    for (;;)
        if (Entity *e = g_world.entities[truth_random(g_world.entities.size())].get())
            return e;
}

static Entity *alive(Handle h)
{
    Entity *e = h.slot < g_world.entities.size() ? g_world.entities[h.slot].get() : nullptr;
    return e && e->generation == h.generation ? e : nullptr;
}

static void remove(std::vector<Entity *> &from, Entity *e)
{
    for (Entity *&at : from)
        if (at == e) {
            at = from.back();
            from.pop_back();
            return;
        }
}

static void place(Entity *e)
{
    int cell = int(g_world.y[e->slot]) * SIDE + int(g_world.x[e->slot]);
    if (cell == e->cell)
        return;
    if (e->cell >= 0)
        remove(g_grid[size_t(e->cell)], e);
    e->cell = cell;
    g_grid[size_t(cell)].push_back(e);
}

static void spawn()
{
    World &w = g_world;
    uint32_t slot;
    if (!w.free_slots.empty()) {
        slot = w.free_slots.back();
        w.free_slots.pop_back();
    } else {
        slot = uint32_t(w.entities.size());
        w.entities.emplace_back();
        w.generations.push_back(0);
        w.x.push_back(0);
        w.y.push_back(0);
        w.health.push_back(0);
        w.kind.push_back(0);
    }
    auto e = std::make_unique<Entity>();
    e->slot = slot;
    e->generation = w.generations[slot];
    e->name = (slot % 3 ? "orc " : "warrior of the northern tribe ") + std::to_string(slot);
    e->mesh = mesh(truth_random(MESHES));
    if (truth_random(3) == 0)
        e->bones = std::make_unique<std::array<float, 16>>();
    w.x[slot] = uniform(SIDE);
    w.y[slot] = uniform(SIDE);
    w.health[slot] = 100;
    w.kind[slot] = uint8_t(truth_random(5));
    place(e.get());
    w.entities[slot] = std::move(e);
    w.alive++;
}

static void leave(Entity *e)
{
    if (e->leader)
        remove(e->leader->followers, e);
    e->leader = nullptr;
}

static void kill(Entity *e)
{
    leave(e);
    for (Entity *f : e->followers)
        f->leader = nullptr;
    remove(g_grid[size_t(e->cell)], e);
    remove(g_selection, e);
    uint32_t slot = e->slot;
    g_world.generations[slot]++;
    g_world.free_slots.push_back(slot);
    g_world.entities[slot].reset();
    g_world.alive--;
}

static void follow(Entity *e, Entity *leader)
{
    if (!e || e == leader || leader->leader || !e->followers.empty() ||
        leader->followers.size() > 6)
        return;
    leave(e);
    e->leader = leader;
    leader->followers.push_back(e);
}

void Hit::operator()(World &world) const
{
    Entity *e = alive(whom);
    if (e && (world.health[whom.slot] -= strength) <= 0)
        kill(e);
}

void Play::operator()(World &world) const
{
    if (alive(at) && !effect->curve.empty())
        world.health[at.slot] += effect->curve[0];
}

void Say::operator()(World &) const
{
    if (Entity *e = alive(who))
        g_chat.push_back(e->name + ": " + text);
    if (g_chat.size() > 2000)
        g_chat.pop_front();
}

static void schedule(Entity *e, std::shared_ptr<Effect> &last)
{
    Handle h{e->slot, e->generation};
    double due = g_time + uniform(35000);
    uint64_t what = truth_random(10);
    if (what < 5) {
        g_events.push({due, Hit{h, uniform(60)}});
    } else if (what < 8) {
        if (!last || truth_random(2)) {
            last = std::make_shared<Effect>();
            last->name = "effect " + std::to_string(truth_random(100)) + " with sparks";
            last->curve.resize(4 + truth_random(60), 0.25f);
            last->mesh = mesh(truth_random(MESHES));
        }
        g_events.push({due, Play{last, h}});
    } else {
        g_events.push({due, Say{"I shall be back at " + std::to_string(due), h}});
    }
}

static void churn()
{
    std::shared_ptr<Effect> last;
    for (int i = 0; i < 6000; i++)
        spawn();
    for (int i = 0; i < 300000; i++) {
        g_time += 1;
        Entity *e = any();
        uint64_t what = truth_random(100);
        if (!e || what < 6) {
            spawn();
        } else if (what < 36) {
            g_world.x[e->slot] = uniform(SIDE);
            place(e);
        } else if (what < 50) {
            schedule(e, last);
        } else if (what < 58) {
            e->inventory.push_back(
                {(i % 2 ? "coin" : "scroll of identification ") + std::to_string(i % 77), 1});
        } else if (what < 64) {
            if (!e->inventory.empty())
                e->inventory.erase(e->inventory.begin() + long(truth_random(e->inventory.size())));
        } else if (what < 72) {
            auto &cell = g_grid[size_t(e->cell)];
            follow(cell[truth_random(cell.size())], e);
        } else if (what < 75) {
            leave(e);
        } else if (what < 76) {
            g_selection = g_grid[size_t(e->cell)];
        } else if (what == 76 && i % 8 == 0) {
            for (auto m = g_meshes.begin(); m != g_meshes.end();) /* unload what is not shown */
                m = m->second.use_count() == 1 ? g_meshes.erase(m) : std::next(m);
            g_meshes.erase(e->mesh->path); /* loaded anew for the next who needs it */
        }
        while (!g_events.empty() && g_events.top().due <= g_time) {
            auto action = std::move(const_cast<Event &>(g_events.top()).action);
            g_events.pop();
            action(g_world);
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_mesh(const Tell &t, const std::shared_ptr<Mesh> &m)
{
    t.shared(m);
    t.string(m->path);
    t.vector(m->points);
    t.vector(m->triangles);
}

/* The meshes of entities are told by `mesh`: some roots share them, others only get there. */
static void tell_entity(const Tell &t, const Entity *e)
{
    t.block(e);
    t.string(e->name);
    tell_mesh(t, e->mesh);
    t.vector(e->inventory);
    for (const Item &item : e->inventory)
        t.string(item.name);
    t.word(&e->leader);
    t.vector(e->followers);
    for (Entity *const &f : e->followers)
        t.word(&f);
    t.complete(e->followers.data());
    t.unique(e->bones);
    t.complete(e->bones.get());
    t.complete(e);
}

/* Those who lead, and those who follow. */
static void tell_group(const Tell &t, const Entity *e)
{
    if (e->leader)
        e = e->leader;
    tell_entity(t, e);
    for (const Entity *f : e->followers)
        tell_entity(t, f);
}

static void tell(void *)
{
    TELL_ROOT(g_world);
    TELL_ROOT(g_grid);
    TELL_ROOT(g_events);
    TELL_ROOT(g_meshes);
    TELL_ROOT(g_chat);
    TELL_ROOT(g_selection);

    Tell world = Tell::owner("g_world");
    world.vector(g_world.entities);
    for (const auto &e : g_world.entities)
        if (e) {
            world.word(&e);
            tell_entity(world, e.get());
        }
    world.complete(g_world.entities.data());
    world.vector(g_world.generations);
    world.vector(g_world.free_slots);
    world.vector(g_world.x);
    world.vector(g_world.y);
    world.vector(g_world.health);
    world.vector(g_world.kind);

    Tell grid = Tell::owner("g_grid");
    grid.vector(g_grid);
    for (const auto &cell : g_grid) {
        grid.vector(cell);
        for (Entity *const &e : cell) {
            grid.word(&e);
            tell_entity(Tell::borrower("g_grid"), e);
        }
        grid.complete(cell.data());
    }

    Tell events = Tell::owner("g_events");
    events.vector(g_events.all());
    for (const Event &event : g_events.all()) {
        events.function<Hit>(event.action);
        if (auto say = events.function<Say>(event.action))
            events.string(say->text);
        if (auto play = events.function<Play>(event.action)) {
            events.shared(play->effect);
            events.string(play->effect->name);
            events.vector(play->effect->curve);
            tell_mesh(events, play->effect->mesh);
        }
    }

    Tell meshes = Tell::owner("g_meshes");
    meshes.hash(g_meshes);
    for (const auto &i : g_meshes) {
        meshes.hash_node(&i);
        meshes.string(i.first);
        tell_mesh(meshes, i.second);
        meshes.complete(&i);
    }

    Tell chat = Tell::owner("g_chat");
    chat.deque(g_chat);
    for (const auto &line : g_chat)
        chat.string(line);

    Tell selection = Tell::owner("g_selection");
    selection.vector(g_selection);
    for (Entity *const &e : g_selection) {
        selection.word(&e);
        tell_group(Tell::borrower("g_selection"), e);
    }
    selection.complete(g_selection.data());
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
