/* steady.h - what the programs of steady.py share: random numbers, words, and the life of a server.
 *
 * Such a program builds its state by 300,000 operations at full speed, says "ready", and goes on at
 * a slow pace, a thousand in a second, until its input ends: so few addresses are freed and taken
 * by another variable within half a second (0.15 %). What one variable owns never goes to another.
 */
#ifndef HX_TEST_STEADY_H
#define HX_TEST_STEADY_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Dice {
    uint64_t state;

    uint64_t operator()(uint64_t below)
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
    }
};

/* Half of them fit into the string itself. */
inline std::string words(Dice &dice, const char *what)
{
    std::string text = what + std::to_string(dice(100000));
    for (uint64_t n = dice(2) * dice(9); n; n--)
        text += " and some more";
    return text;
}

/* Runs step(dice) in `threads` threads, first fast, then slowly and for ever. */
template <class Step> void live_steadily(unsigned threads, Step step)
{
    prctl(PR_SET_PDEATHSIG, 9);
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; i++)
        workers.emplace_back([i, threads, step] {
            Dice dice{i + 1};
            for (unsigned n = 0; n < 300000 / threads; n++)
                step(dice);
        });
    for (std::thread &worker : workers)
        worker.join();
    for (unsigned i = 0; i < threads; i++)
        std::thread([i, threads, step] {
            Dice dice{i + 100};
            for (;; std::this_thread::sleep_for(std::chrono::milliseconds(4 * threads)))
                for (int n = 0; n < 4; n++)
                    step(dice);
        }).detach();
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    _exit(0);
}

#endif
