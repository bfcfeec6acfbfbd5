// event_server.cc - a server of events in one thread: connections, a heap of timers that each
// knows its connection, outgoing buffers, and rooms with members.
#include <functional>

#include "truth_std.h"

struct Connection;

struct Timer {
    uint64_t when;
    Connection *connection;
    void tell(const truth_holders &by) const
    {
        truth_tell(connection, by);
    }
};

struct Message {
    std::string text;
    uint64_t from;
    void tell(const truth_holders &by) const
    {
        truth_tell(text, by);
    }
};

struct Connection {
    int fd = -1;
    size_t timer = SIZE_MAX; // its place in the heap
    std::string peer, input;
    std::vector<char> output;
    std::deque<std::shared_ptr<const Message>> queue;
    std::set<std::string> rooms;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, peer, input, output, queue, rooms);
    }
};

struct Room {
    std::string topic;
    std::vector<Connection *> members;
    std::list<std::shared_ptr<const Message>> history;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, topic, members, history);
    }
};

static std::unordered_map<int, std::unique_ptr<Connection>> connections;
static std::map<std::string, Room> rooms;
static uint64_t now;

// A binary heap, in which each connection knows where its timer is.
static struct Timers {
    std::vector<Timer> heap;

    void put(size_t i, Timer timer)
    {
        heap[i] = timer;
        timer.connection->timer = i;
    }
    void up(size_t i, Timer timer)
    {
        for (; i > 0 && timer.when < heap[(i - 1) / 2].when; i = (i - 1) / 2)
            put(i, heap[(i - 1) / 2]);
        put(i, timer);
    }
    void down(size_t i, Timer timer)
    {
        for (size_t child; (child = 2 * i + 1) < heap.size(); i = child) {
            if (child + 1 < heap.size() && heap[child + 1].when < heap[child].when)
                child++;
            if (timer.when <= heap[child].when)
                break;
            put(i, heap[child]);
        }
        put(i, timer);
    }
    void remove(Connection *connection)
    {
        size_t i = connection->timer;
        if (i == SIZE_MAX)
            return;
        connection->timer = SIZE_MAX;
        Timer last = heap.back();
        heap.pop_back();
        if (i == heap.size())
            return;
        if (i > 0 && last.when < heap[(i - 1) / 2].when)
            up(i, last);
        else
            down(i, last);
    }
    void set(Connection *connection, uint64_t when)
    {
        remove(connection);
        heap.push_back({when, connection});
        up(heap.size() - 1, heap.back());
    }
} timers;

static void leave(Connection *connection, const std::string &name)
{
    auto &members = rooms[name].members;
    for (auto &member : members)
        if (member == connection) {
            member = members.back();
            members.pop_back();
            break;
        }
    connection->rooms.erase(name);
}

static void close(Connection *connection)
{
    timers.remove(connection);
    while (!connection->rooms.empty())
        leave(connection, *connection->rooms.begin());
    connections.erase(connection->fd);
}

static void say(Connection *from, const std::string &name)
{
    Room &room = rooms[name];
    auto message = std::make_shared<const Message>(Message{
        "said by " + from->peer + ": " + std::string(truth_random(80), 'm'), uint64_t(from->fd)});
    room.history.push_back(message);
    if (room.history.size() > 20)
        room.history.pop_front();
    for (Connection *member : room.members)
        if (member->queue.size() < 8)
            member->queue.push_back(message);
}

static void event(int fd)
{
    auto &place = connections[fd];
    if (!place) {
        place = std::make_unique<Connection>();
        place->fd = fd;
        place->peer =
            "10.1." + std::to_string(fd / 256) + "." + std::to_string(fd % 256) + ":40000";
        timers.set(place.get(), now + 30000);
        return;
    }
    Connection *connection = place.get();
    switch (truth_random(24)) {
    case 0:
        close(connection);
        break;
    case 1 ... 3: {
        std::string name = "room " + std::to_string(truth_random(1500));
        if (connection->rooms.size() < 3 && connection->rooms.insert(name).second) {
            Room &room = rooms[name];
            room.topic = "what is talked about in " + name;
            room.members.push_back(connection);
        }
        break;
    }
    case 4:
        if (!connection->rooms.empty())
            leave(connection, *connection->rooms.begin());
        break;
    case 5 ... 8:
        if (!connection->rooms.empty())
            say(connection, *connection->rooms.begin());
        break;
    case 9 ... 15: // may be written to
        while (!connection->queue.empty()) {
            const std::string &text = connection->queue.front()->text;
            connection->output.insert(connection->output.end(), text.begin(), text.end());
            connection->queue.pop_front();
        }
        if (connection->output.size() > 2000)
            std::vector<char>().swap(connection->output);
        break;
    default:
        connection->input.append(truth_random(90), 'i');
        if (connection->input.size() > 300)
            connection->input = connection->input.substr(250);
    }
    auto still = connections.find(fd);
    if (still != connections.end())
        timers.set(still->second.get(), now + 1000 + truth_random(30000));
    now += 2;
    while (!timers.heap.empty() && timers.heap[0].when < now)
        close(timers.heap[0].connection);
}

static void tell(void *)
{
    TRUTH_ROOT(connections);
    TRUTH_ROOT(timers);
    TRUTH_ROOT(rooms);
    truth_tell(connections, {{"connections"}, {}});
    truth_tell(timers.heap, {{"timers"}, {}});
    truth_tell(rooms, {{"rooms"}, {}});
    for (const Timer &timer : timers.heap)
        truth_tell_at({{}, {"timers"}}, timer.connection);
    for (const auto &[name, room] : rooms)
        for (const Connection *member : room.members)
            truth_tell_at({{}, {"rooms"}}, member);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        event(int(truth_random(12000)));
    truth_rest(argc, argv, tell, nullptr);
}
