/* v_ecs.cc - entities of a game: components in sparse sets, behaviours and colliders by pointers of
 * their own, a grid that points to the colliders within a cell, events that carry what they
 * mean, and what the scripts remember.
 */
#include "truth_std.h"

/* Components of which the pool keeps the values themselves. */
struct Body {
    float x, y, dx, dy;

    void tell(const truth_holders &) const
    {
    }
};

struct Label {
    std::string text;
    uint32_t colour;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, text);
    }
};

/* A sparse set: where an entity's value is, whose a value is, and the values. */
template <class T> struct Pool {
    std::vector<uint32_t> sparse, dense;
    std::vector<T> values;

    T *find(uint32_t entity)
    {
        if (entity >= sparse.size() || sparse[entity] == UINT32_MAX)
            return nullptr;
        return &values[sparse[entity]];
    }
    void set(uint32_t entity, T value)
    {
        if (T *at = find(entity)) {
            *at = std::move(value);
            return;
        }
        if (entity >= sparse.size())
            sparse.resize(entity + 1, UINT32_MAX);
        sparse[entity] = uint32_t(dense.size());
        dense.push_back(entity);
        values.push_back(std::move(value));
    }
    void erase(uint32_t entity)
    {
        if (!find(entity))
            return;
        uint32_t at = sparse[entity];
        if (at + 1 != dense.size()) {
            values[at] = std::move(values.back());
            dense[at] = dense.back();
            sparse[dense[at]] = at;
        }
        values.pop_back();
        dense.pop_back();
        sparse[entity] = UINT32_MAX;
    }
    void tell(const truth_holders &by) const
    {
        truth_tell(by, sparse, dense, values);
    }
};

/* Components that are objects of several classes. */
struct Component {
    uint32_t entity = 0;

    virtual ~Component() = default;
    virtual void tell_rest(const truth_holders &by) const = 0;
    void tell(const truth_holders &by) const
    {
        tell_rest(by);
    }
};

struct Collider : Component {
    std::vector<float> hull;
    std::string material;
    int cell = -1;

    void tell_rest(const truth_holders &by) const override
    {
        truth_tell(by, hull, material);
    }
};

struct Script : Component {
    std::string source;
    std::map<std::string, double> variables;
    std::vector<uint32_t> targets;

    void tell_rest(const truth_holders &by) const override
    {
        truth_tell(by, source, variables, targets);
    }
};

struct Inventory : Component {
    struct Item {
        std::string name;
        uint32_t count;

        void tell(const truth_holders &by) const
        {
            truth_tell(by, name);
        }
    };
    std::vector<Item> items;
    std::unique_ptr<std::array<uint32_t, 40>> slots;

    void tell_rest(const truth_holders &by) const override
    {
        truth_tell(by, items, slots);
    }
};

struct Payload {
    std::string text;
    std::vector<uint32_t> entities;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, text, entities);
    }
};

struct Event {
    uint32_t kind, entity;
    std::unique_ptr<Payload> payload;
    std::string source;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, payload, source);
    }
};

enum { SIDE = 48, ENTITIES = 5000 };

static std::vector<std::unique_ptr<Component>> g_colliders(ENTITIES), g_scripts(ENTITIES),
    g_inventories(ENTITIES);
static Pool<Body> g_bodies;
static Pool<Label> g_labels;
static std::vector<std::vector<Collider *>> g_grid(SIDE *SIDE);
static std::deque<Event> g_events;
static std::vector<Event> g_kept; /* to be sent again */

static float place()
{
    return float(truth_random(SIDE * 16)) / 16;
}

static void leave_grid(Collider *c)
{
    if (c->cell < 0)
        return;
    auto &cell = g_grid[size_t(c->cell)];
    for (Collider *&at : cell)
        if (at == c) {
            at = cell.back();
            cell.pop_back();
            break;
        }
    c->cell = -1;
}

static void enter_grid(Collider *c)
{
    const Body *body = g_bodies.find(c->entity);
    if (!body)
        return;
    c->cell = int(body->y) * SIDE + int(body->x);
    g_grid[size_t(c->cell)].push_back(c);
}

static Collider *collider(uint32_t e)
{
    return static_cast<Collider *>(g_colliders[e].get());
}

static void destroy(uint32_t e)
{
    if (Collider *c = collider(e))
        leave_grid(c);
    g_colliders[e].reset();
    g_scripts[e].reset();
    g_inventories[e].reset();
    g_bodies.erase(e);
    g_labels.erase(e);
}

static void create(uint32_t e)
{
    destroy(e);
    g_bodies.set(e, {place(), place(), 0, 0});
    if (truth_random(2))
        g_labels.set(e, {"entity number " + std::to_string(e), 7});
    if (truth_random(3)) {
        auto c = std::make_unique<Collider>();
        c->entity = e;
        c->hull.resize(6 + 2 * truth_random(12), 1.5f);
        c->material = truth_random(2) ? "wood" : "wrought iron with rust";
        enter_grid(c.get());
        g_colliders[e] = std::move(c);
    }
    if (truth_random(3) == 0) {
        auto s = std::make_unique<Script>();
        s->entity = e;
        s->source = "on touch do play sound " + std::to_string(truth_random(100));
        g_scripts[e] = std::move(s);
    }
    if (truth_random(4) == 0) {
        auto i = std::make_unique<Inventory>();
        i->entity = e;
        if (truth_random(2))
            i->slots = std::make_unique<std::array<uint32_t, 40>>();
        g_inventories[e] = std::move(i);
    }
}

static void run(Script &s)
{
    std::string name =
        (truth_random(2) ? "x" : "a_variable_with_a_long_name_") + std::to_string(truth_random(12));
    if (truth_random(5) == 0)
        s.variables.erase(name);
    else
        s.variables[name] += 1;
    s.targets.push_back(uint32_t(truth_random(ENTITIES)));
    if (s.targets.size() > 20)
        s.targets = std::vector<uint32_t>(s.targets.end() - 4, s.targets.end());
}

static void carry(Inventory &i)
{
    if (i.items.size() > 8 || (!i.items.empty() && truth_random(3) == 0))
        i.items.erase(i.items.begin() + long(truth_random(i.items.size())));
    else
        i.items.push_back({(truth_random(2) ? "coin " : "potion of slow falling ") +
                               std::to_string(truth_random(60)),
                           1});
}

static void send(uint32_t e)
{
    Event event{uint32_t(truth_random(9)), e, nullptr, "system of collisions"};
    if (truth_random(2)) {
        event.payload = std::make_unique<Payload>();
        event.payload->text = "entity " + std::to_string(e) + " was touched";
        if (const Collider *c = collider(e))
            if (c->cell >= 0)
                for (const Collider *other : g_grid[size_t(c->cell)])
                    event.payload->entities.push_back(other->entity);
    }
    g_events.push_back(std::move(event));
}

static void receive()
{
    Event event = std::move(g_events.front());
    g_events.pop_front();
    if (event.kind == 0 && g_kept.size() < 700)
        g_kept.push_back(std::move(event));
    else if (event.kind == 1)
        create(event.entity);
}

static void churn()
{
    for (int i = 0; i < 300000; i++) {
        uint32_t e = uint32_t(truth_random(ENTITIES));
        uint64_t what = truth_random(100);
        if (what < 8) {
            create(e);
        } else if (what < 14) {
            destroy(e);
        } else if (what < 44) {
            if (Body *body = g_bodies.find(e)) {
                body->x = place();
                if (Collider *c = collider(e)) {
                    leave_grid(c);
                    enter_grid(c);
                }
            }
        } else if (what < 60) {
            if (g_scripts[e])
                run(static_cast<Script &>(*g_scripts[e]));
        } else if (what < 74) {
            if (g_inventories[e])
                carry(static_cast<Inventory &>(*g_inventories[e]));
        } else if (what < 80) {
            if (Label *label = g_labels.find(e))
                label->text += "!";
        } else if (what < 90) {
            send(e);
        } else if (what < 91 && !g_kept.empty()) {
            g_events.push_back(std::move(g_kept.back()));
            g_kept.pop_back();
        }
        while (g_events.size() > (i % 20000 < 15000 ? 2500u : 1200u))
            receive();
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell(void *)
{
    TRUTH_ROOT(g_colliders);
    TRUTH_ROOT(g_scripts);
    TRUTH_ROOT(g_inventories);
    TRUTH_ROOT(g_bodies);
    TRUTH_ROOT(g_labels);
    TRUTH_ROOT(g_grid);
    TRUTH_ROOT(g_events);
    TRUTH_ROOT(g_kept);
    for (const void *root :
         {(void *)&g_colliders, (void *)&g_scripts, (void *)&g_inventories, (void *)&g_bodies,
          (void *)&g_labels, (void *)&g_grid, (void *)&g_events, (void *)&g_kept})
        truth_words(root);

    truth_tell(g_colliders, {{"g_colliders"}, {}});
    truth_tell(g_scripts, {{"g_scripts"}, {}});
    truth_tell(g_inventories, {{"g_inventories"}, {}});
    truth_tell(g_bodies, {{"g_bodies"}, {}});
    truth_tell(g_labels, {{"g_labels"}, {}});
    truth_tell(g_grid, {{"g_grid"}, {}});
    for (const auto &cell : g_grid)
        for (const Collider *c : cell)
            truth_tell_at({{}, {"g_grid"}}, c);
    truth_tell(g_events, {{"g_events"}, {}});
    truth_tell(g_kept, {{"g_kept"}, {}});
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
