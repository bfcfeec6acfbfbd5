/* u_graph.cc - a directed graph with an index by name and one of its hubs by rank.
 *
 * Vertices come and go, edges are put and taken away, routes are looked for; the last
 * routes stay in a queue.
 */
#include "u_tell.h"

#include <map>
#include <unordered_map>

struct Vertex;

struct Edge {
    Vertex *to;
    double weight;
};

struct Vertex {
    uint64_t id;
    std::string name;
    double rank = 0;
    size_t slot = 0;
    unsigned routes = 0;
    unsigned seen = 0;      /* number of the search that came here last */
    Vertex *from = nullptr; /* from where: only valid within this search */
    std::vector<Edge> out;
    std::vector<Vertex *> in;
    std::map<std::string, std::string> attributes;
};

struct Route {
    std::string label;
    std::vector<Vertex *> via;
};

static std::vector<std::unique_ptr<Vertex>> g_vertices;
static std::unordered_map<std::string, Vertex *> g_by_name;
static std::multimap<double, Vertex *> g_hubs;
static std::deque<Route> g_routes;

static unsigned g_search;
static uint64_t g_next;

static std::string new_name()
{
    static const char *const kinds[] = {"host", "router", "storage-volume", "service.production",
                                        "database.replica.eu-west"};
    return std::string(kinds[truth_random(5)]) + "-" + std::to_string(g_next);
}

static Vertex *any()
{
    return g_vertices[truth_random(g_vertices.size())].get();
}

static void out_of_hubs(Vertex *v)
{
    auto range = g_hubs.equal_range(v->rank);
    for (auto i = range.first; i != range.second; ++i)
        if (i->second == v) {
            g_hubs.erase(i);
            return;
        }
}

static void rank_changed(Vertex *v)
{
    if (v->rank > 0)
        out_of_hubs(v);
    v->rank = v->in.size() >= 4 ? double(v->in.size()) + 1.0 / double(v->id + 1) : 0;
    if (v->rank > 0)
        g_hubs.emplace(v->rank, v);
}

static void add_vertex()
{
    auto v = std::make_unique<Vertex>();
    v->id = g_next++;
    v->name = new_name();
    v->slot = g_vertices.size();
    g_by_name.emplace(v->name, v.get());
    g_vertices.push_back(std::move(v));
}

static void connect(Vertex *a, Vertex *b)
{
    if (a == b || a->out.size() > 24)
        return;
    a->out.push_back({b, double(truth_random(1000)) / 10});
    b->in.push_back(a);
    rank_changed(b);
}

static void take_in(Vertex *b, Vertex *a)
{
    for (size_t i = 0; i < b->in.size(); i++)
        if (b->in[i] == a) {
            b->in[i] = b->in.back();
            b->in.pop_back();
            break;
        }
    rank_changed(b);
}

static void disconnect(Vertex *a)
{
    if (a->out.empty())
        return;
    size_t i = truth_random(a->out.size());
    Vertex *b = a->out[i].to;
    a->out.erase(a->out.begin() + long(i));
    take_in(b, a);
}

static void forget_routes(Vertex *v)
{
    for (size_t i = 0; v->routes && i < g_routes.size();) {
        bool through = false;
        for (Vertex *w : g_routes[i].via)
            through = through || w == v;
        if (!through) {
            i++;
            continue;
        }
        for (Vertex *w : g_routes[i].via)
            w->routes--;
        g_routes.erase(g_routes.begin() + long(i));
    }
}

static void remove_vertex(Vertex *v)
{
    forget_routes(v);
    for (Edge &e : v->out)
        take_in(e.to, v);
    for (Vertex *a : v->in)
        for (size_t i = 0; i < a->out.size(); i++)
            if (a->out[i].to == v) {
                a->out.erase(a->out.begin() + long(i));
                break;
            }
    if (v->rank > 0)
        out_of_hubs(v);
    g_by_name.erase(v->name);
    size_t slot = v->slot;
    std::swap(g_vertices[slot], g_vertices.back());
    g_vertices[slot]->slot = slot;
    g_vertices.pop_back();
}

static void search(Vertex *start)
{
    std::deque<Vertex *> queue{start};
    Vertex *last = start;
    start->seen = ++g_search;
    start->from = nullptr;
    for (int steps = 0; !queue.empty() && steps < 60; steps++) {
        last = queue.front();
        queue.pop_front();
        for (const Edge &e : last->out)
            if (e.to->seen != g_search) {
                e.to->seen = g_search;
                e.to->from = last;
                queue.push_back(e.to);
            }
    }
    Route route;
    for (Vertex *v = last; v; v = v->from)
        route.via.push_back(v);
    if (route.via.size() < 3)
        return;
    route.label = start->name + " -> " + last->name;
    for (Vertex *v : route.via)
        v->routes++;
    g_routes.push_back(std::move(route));
    if (g_routes.size() > 1500) {
        for (Vertex *v : g_routes.front().via)
            v->routes--;
        g_routes.pop_front();
    }
}

static void rename(Vertex *v)
{
    auto handle = g_by_name.extract(v->name);
    v->name = new_name() + "/" + std::to_string(v->id);
    handle.key() = v->name;
    g_by_name.insert(std::move(handle));
}

static void churn()
{
    for (int i = 0; i < 3000; i++)
        add_vertex();
    for (int i = 0; i < 300000; i++) {
        uint64_t what = truth_random(100);
        if (what < 9)
            add_vertex();
        else if (what < 45)
            connect(any(), any());
        else if (what < 58)
            disconnect(any());
        else if (what < 63)
            remove_vertex(any());
        else if (what < 68)
            rename(any());
        else if (what < 76)
            any()->attributes[truth_random(2) ? "rack" : "owner-of-record"] =
                "value " + std::to_string(truth_random(1u << 30)) + " of " + std::to_string(i);
        else if (what < 80)
            any()->attributes.clear();
        else if (what < 92) {
            auto found = g_by_name.find(any()->name);
            if (found != g_by_name.end())
                found->second->rank += 0;
        } else
            search(any());
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_vertex(const Tell &t, const Vertex *v)
{
    t.block(v);
    t.string(v->name);
    t.vector(v->out);
    for (const Edge &e : v->out)
        t.word(&e.to);
    t.complete(v->out.data());
    t.vector(v->in);
    for (Vertex *const &a : v->in)
        t.word(&a);
    t.complete(v->in.data());
    t.tree(v->attributes);
    for (const auto &a : v->attributes) {
        t.tree_node(&a);
        t.string(a.first);
        t.string(a.second);
        t.complete(&a);
    }
    t.complete(v);
}

/* Whatever edges lead to, both ways. */
struct Reach {
    Vertex **stack;
    size_t size = 0;

    void push(Vertex *v)
    {
        if (v->seen == g_search)
            return;
        v->seen = g_search;
        stack[size++] = v;
    }
    void all(const Tell &t)
    {
        while (size > 0) {
            Vertex *v = stack[--size];
            tell_vertex(t, v);
            for (const Edge &e : v->out)
                push(e.to);
            for (Vertex *a : v->in)
                push(a);
        }
    }
};

static void tell(void *)
{
    TELL_ROOT(g_vertices);
    TELL_ROOT(g_by_name);
    TELL_ROOT(g_hubs);
    TELL_ROOT(g_routes);
    size_t bytes = g_vertices.size() * sizeof(Vertex *);
    Reach reach;
    reach.stack = static_cast<Vertex **>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    Tell vertices = Tell::owner("g_vertices");
    vertices.vector(g_vertices);
    for (const auto &v : g_vertices) {
        vertices.word(&v);
        tell_vertex(vertices, v.get());
    }
    vertices.complete(g_vertices.data());

    Tell names = Tell::owner("g_by_name");
    names.hash(g_by_name);
    for (const auto &i : g_by_name) {
        names.hash_node(&i);
        names.string(i.first);
        names.word(&i.second);
        names.complete(&i);
        tell_vertex(Tell::borrower("g_by_name"), i.second);
    }

    Tell hubs = Tell::owner("g_hubs");
    hubs.tree(g_hubs);
    g_search++;
    for (const auto &i : g_hubs) {
        hubs.tree_node(&i);
        hubs.word(&i.second);
        hubs.complete(&i);
        reach.push(i.second);
        reach.all(Tell::borrower("g_hubs"));
    }

    Tell routes = Tell::owner("g_routes");
    routes.deque(g_routes);
    g_search++;
    for (const Route &r : g_routes) {
        routes.string(r.label);
        routes.vector(r.via);
        for (Vertex *const &v : r.via) {
            routes.word(&v);
            reach.push(v);
            reach.all(Tell::borrower("g_routes"));
        }
    }
    munmap(reach.stack, bytes);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
