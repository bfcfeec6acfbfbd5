// containers.cc - every standard container as a variable of its own, filled, emptied and moved.
#include "truth_std.h"

namespace store
{

using Text = std::string;

struct Point {
    double x, y;
    bool operator<(const Point &other) const
    {
        return x < other.x;
    }
    void tell(const truth_holders &) const
    {
    }
};

// A tree of tasks in which children know their parent.
struct Task {
    Text what;
    std::weak_ptr<Task> parent;
    std::vector<std::shared_ptr<Task>> parts;
    std::optional<Text> result;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, what, parent, parts, result);
    }
};

struct Job {
    uint64_t priority;
    std::unique_ptr<Text> text;
    bool operator<(const Job &other) const
    {
        return priority < other.priority;
    }
    void tell(const truth_holders &by) const
    {
        truth_tell(text, by);
    }
};

std::vector<Text> lines;
std::vector<std::vector<Point>> tracks;
std::vector<bool> flags;
std::deque<Text> backlog;
std::list<Text> chain;
std::forward_list<std::pair<int, Text>> stack_of_notes;
std::map<int, std::pair<Text, std::vector<Text>>> directory;
std::multimap<Text, Text> headers;
std::set<Text> words;
std::multiset<double> samples;
std::unordered_map<Text, std::list<Text>> groups;
std::unordered_set<Text> seen;
std::unordered_multimap<int, Text> postings;
std::priority_queue<Job> jobs;
std::queue<std::unique_ptr<Point>> points;
std::stack<std::tuple<int, Text, std::set<int>>> states;
std::array<std::map<Text, int>, 16> shards;
std::variant<std::vector<Text>, std::map<int, Text>> either;
std::shared_ptr<Task> plan;

Text text()
{
    uint64_t n = truth_random(1u << 20);
    switch (n % 4) {
    case 0:
        return std::to_string(n);
    case 1:
        return "some text that is longer, number " + std::to_string(n);
    case 2:
        return Text(truth_random(30), 'a');
    default:
        return "text " + std::to_string(n % 5000);
    }
}

template <class T> void bound(T &container, size_t limit)
{
    if (container.size() > limit)
        container.erase(container.begin());
}

template <class T> void erase_some(T &container, const typename T::key_type &key)
{
    auto [from, to] = container.equal_range(key);
    container.erase(from, to);
}

void trees(uint64_t n)
{
    switch (n % 11) {
    case 0:
    case 1: {
        auto &entry = directory[int(n % 4001)];
        entry.first = text();
        entry.second.push_back(text());
        if (entry.second.size() > 6)
            entry.second.resize(2);
        break;
    }
    case 2:
        directory.erase(int(n % 4001));
        break;
    case 3:
        headers.emplace("header " + std::to_string(n % 1999), text());
        break;
    case 4:
        erase_some(headers, "header " + std::to_string(n % 1999));
        break;
    case 5:
    case 6:
        words.insert(text());
        break;
    case 7:
        if (auto at = words.lower_bound(text()); at != words.end())
            words.erase(at);
        break;
    case 8:
        samples.insert(double(n % 9001));
        bound(samples, 3000);
        break;
    default: {
        auto &shard = shards[n % 16];
        shard[text()]++;
        bound(shard, 300);
    }
    }
}

void tables(uint64_t n)
{
    switch (n % 7) {
    case 0:
    case 1: {
        auto &group = groups["group " + std::to_string(n % 1501)];
        group.push_front(text());
        if (group.size() > 8)
            group.pop_back();
        break;
    }
    case 2:
        groups.erase("group " + std::to_string(n % 1501));
        break;
    case 3:
        seen.insert(text());
        if (seen.size() > 6000)
            seen.erase(seen.begin());
        break;
    case 4:
        seen.erase(text());
        break;
    case 5:
        postings.emplace(int(n % 1009), text());
        break;
    default:
        erase_some(postings, int(n % 1009));
    }
}

void sequences(uint64_t n)
{
    switch (n % 17) {
    case 0:
    case 1:
        lines.push_back(text());
        break;
    case 2:
        if (lines.size() > 5000)
            lines.erase(lines.begin() + 1000, lines.begin() + 3000);
        else if (!lines.empty())
            std::swap(lines[truth_random(lines.size())], lines.back());
        break;
    case 3:
        tracks.emplace_back(n % 13);
        if (tracks.size() > 900)
            tracks.erase(tracks.begin(), tracks.begin() + 300);
        break;
    case 4:
        if (!tracks.empty())
            tracks[truth_random(tracks.size())].push_back({double(n), 0});
        break;
    case 5:
        flags.push_back(n % 2);
        break;
    case 6:
    case 7:
        backlog.push_back(text());
        break;
    case 8:
        backlog.push_front(text());
        while (backlog.size() > 3000)
            backlog.pop_back();
        break;
    case 9:
    case 10:
        chain.push_back(text());
        if (chain.size() > 3000)
            chain.erase(chain.begin(), std::next(chain.begin(), 700));
        break;
    case 11:
        stack_of_notes.emplace_front(int(n % 100), text());
        if (n % 2000 < 3)
            stack_of_notes.remove_if([](const auto &note) { return note.first > 20; });
        break;
    case 12:
        jobs.push({n, std::make_unique<Text>(text())});
        while (jobs.size() > 2000)
            jobs.pop();
        break;
    case 13:
        points.push(std::make_unique<Point>());
        if (points.size() > 2000)
            points.pop();
        break;
    case 14:
        states.emplace(int(n), text(), std::set<int>{1, int(n % 9), int(n % 77)});
        if (states.size() > 1000)
            for (int i = 0; i < 400; i++)
                states.pop();
        break;
    case 15:
        if (auto some = std::get_if<std::vector<Text>>(&either); some && n % 900)
            some->push_back(text());
        else if (auto others = std::get_if<std::map<int, Text>>(&either); others && n % 900)
            (*others)[int(n % 700)] = text();
        else if (some)
            either = std::map<int, Text>{{1, text()}};
        else
            either = std::vector<Text>{text()};
        break;
    default: {
        std::shared_ptr<Task> task = plan;
        while (!task->parts.empty() && truth_random(5))
            task = task->parts[truth_random(task->parts.size())];
        if (task->parts.size() < 5) {
            task->parts.push_back(std::make_shared<Task>());
            task->parts.back()->what = text();
            task->parts.back()->parent = task;
        } else if (n % 3 == 0)
            task->parts.erase(task->parts.begin());
        else if (n % 3 == 1)
            task->result = text();
        else
            task->result.reset();
    }
    }
}

#define EACH(variable)                                                                             \
    truth_root(#variable, &variable, sizeof variable);                                             \
    truth_tell(variable, {{#variable}, {}})

void tell(void *)
{
    EACH(lines);
    EACH(tracks);
    EACH(flags);
    EACH(backlog);
    EACH(chain);
    EACH(stack_of_notes);
    EACH(directory);
    EACH(headers);
    EACH(words);
    EACH(samples);
    EACH(groups);
    EACH(seen);
    EACH(postings);
    EACH(jobs);
    EACH(points);
    EACH(states);
    EACH(shards);
    EACH(either);
    EACH(plan);
}

} // namespace store

int main(int argc, char **argv)
{
    store::plan = std::make_shared<store::Task>();
    for (int i = 0; i < 300000; i++) {
        uint64_t n = truth_random(1u << 30);
        (n % 3 == 0 ? store::trees : n % 3 == 1 ? store::tables : store::sequences)(n / 3);
    }
    truth_rest(argc, argv, store::tell, nullptr);
}
