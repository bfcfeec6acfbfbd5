/* scc_pool.cc - a thread pool in C++ whose tasks belong to who submitted them, and regions that
 * exceptions leave. Built a second time with HEAPX_SCC_DISABLE: then they belong to the worker.
 *
 *   scc_pool [--wait]
 *
 * --wait: says where malloc lies, begins when a line comes, says "done" and waits for the end. */
#include "scc_victim.h"

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

class pool
{
  public:
    explicit pool(unsigned n)
    {
        for (unsigned i = 0; i < n; i++)
            threads_.emplace_back([this] { work(); });
    }
    ~pool()
    {
        {
            std::lock_guard<std::mutex> hold(mutex_);
            closed_ = true;
        }
        more_.notify_all();
        for (auto &thread : threads_)
            thread.join();
    }
    template <class F> void submit(F &&function)
    {
        std::function<void()> task = heapx::box(std::forward<F>(function));
        std::lock_guard<std::mutex> hold(mutex_);
        tasks_.push_back(std::move(task));
        more_.notify_one();
    }

  private:
    FAR void work()
    {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock<std::mutex> hold(mutex_);
                more_.wait(hold, [this] { return closed_ || !tasks_.empty(); });
                if (tasks_.empty())
                    return;
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task();
            THEN();
        }
    }
    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<std::function<void()>> tasks_;
    std::vector<std::thread> threads_;
    bool closed_ = false;
};

FAR void make_widget(size_t bytes)
{
    keep(bytes);
    THEN();
}

FAR void alice(pool &workers)
{
    for (int i = 0; i < 20; i++)
        workers.submit([] { make_widget(3001); });
}

FAR void bob(pool &workers)
{
    HEAPX_SCC("bob's share");
    for (int i = 0; i < 40; i++)
        workers.submit([i] {
            HEAPX_SCC("in a task");
            make_widget(3002);
            if (i % 2 == 0)
                return;
            /* and it creates more: that belongs to whoever asked for it in the end */
            make_widget(3003);
        });
}

/* map and double: what is done later belongs to who asked, with the box; to who did it, without. */
FAR int doubled(int x)
{
    keep(3101);
    return 2 * x;
}
FAR std::function<int()> lazily(int x)
{
    return [x] { return doubled(x); };
}
FAR std::function<int()> boxed(int x)
{
    return heapx::box([x] { return doubled(x); });
}
FAR int force(const std::function<int()> &thunk)
{
    int got = thunk();
    keep(3102);
    return got;
}

FAR void throws(int depth)
{
    HEAPX_SCC("thrown through");
    if (depth == 0)
        throw std::runtime_error("for the test");
    throws(depth - 1);
    THEN();
}

FAR void exceptions()
{
    HEAPX_SCC("catching");
    for (int i = 0; i < 10; i++) {
        try {
            throws(i);
        } catch (const std::exception &) {
            keep(3201);
        }
    }
}

} // namespace

static bool asked(const char *what, unsigned long where)
{
    std::printf("%s %#lx\n", what, where);
    std::fflush(stdout);
    return std::getchar() != EOF;
}

int main(int argc, char **argv)
{
    bool waits = argc > 1 && !std::strcmp(argv[1], "--wait");
    if (waits && !asked("entry", reinterpret_cast<unsigned long>(&std::malloc)))
        return 2;
    {
        pool workers(3);
        alice(workers);
        bob(workers);
    }
    auto a = lazily(1), b = boxed(2);
    int got = force(a) + force(b);
    exceptions();
    keep(3202);
    if (waits)
        asked("done", 0);
    return got != 6;
}
