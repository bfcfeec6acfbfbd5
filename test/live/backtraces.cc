/* backtraces.cc - threads that stand still where a debugger and heapx can look at them: in locks,
 * system calls, handlers, recursion, a loop, and in functions that were inlined.
 *
 * Says "ready" and waits for the end of its input. Built without frame pointers.
 */
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <poll.h>
#include <semaphore.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace
{

volatile int kept;
sem_t never, there;

[[gnu::noinline]] void wait_for_ever()
{
    sem_post(&there);
    while (sem_wait(&never) != 0)
        ;
    kept++;
}

template <typename T> struct Waiter {
    T value;
    [[gnu::noinline]] void wait(int depth) const
    {
        if (depth > 0)
            wait(depth - 1);
        else
            wait_for_ever();
        kept = depth;
    }
};

inline __attribute__((always_inline)) void inlined_wait()
{
    Waiter<std::vector<int>>{}.wait(3);
    kept++;
}

[[gnu::noinline]] void with_condition()
{
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock<std::mutex> lock(mutex);
    sem_post(&there);
    condition.wait(lock, [] { return kept < 0; });
    kept++;
}

[[gnu::noinline]] void with_poll()
{
    sem_post(&there);
    for (;;) {
        poll(nullptr, 0, -1);
        kept++;
    }
}

[[gnu::noinline]] void with_sleep()
{
    timespec time = {1000, 0};
    sem_post(&there);
    nanosleep(&time, nullptr);
    kept++;
}

[[gnu::noinline]] void with_loop()
{
    sem_post(&there);
    for (volatile unsigned i = 0; kept >= 0;)
        i = i + 1;
}

void on_signal(int)
{
    wait_for_ever();
    kept++;
}

[[gnu::noinline]] void with_signal()
{
    stack_t stack = {};
    stack.ss_sp = malloc(1 << 16);
    stack.ss_size = 1 << 16;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    kept++;
}

int by_value(const void *a, const void *b)
{
    wait_for_ever();
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

[[gnu::noinline]] void with_qsort()
{
    int values[] = {3, 1, 2};
    qsort(values, 3, sizeof *values, by_value);
    kept = values[0];
}

} // namespace

int main()
{
    std::vector<std::function<void()>> all = {[] { inlined_wait(); },
                                              with_condition,
                                              with_poll,
                                              with_sleep,
                                              with_loop,
                                              with_signal,
                                              with_qsort,
                                              [] { Waiter<long>{}.wait(40); }};
    sem_init(&never, 0, 0);
    sem_init(&there, 0, 0);
    for (auto &one : all)
        std::thread(one).detach();
    for (size_t i = 0; i < all.size(); i++)
        sem_wait(&there);
    usleep(50000); /* the last steps into the kernel */
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
}
