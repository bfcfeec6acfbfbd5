/* demo.c - `heapx demo`: starts the sample program and looks into it. */
#include "config.h"

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/explore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SAMPLE "heapx-demo"

enum { READY_WITHIN_MS = 20000 };

struct sample {
    pid_t pid;
    int out; /* its standard output */
};

/* Beside this program in a build folder, else where it was installed. */
static hx_error *find_sample(char path[PATH_MAX])
{
    char self[PATH_MAX - sizeof SAMPLE];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        char *slash = strrchr(self, '/');
        if (slash) {
            *slash = 0;
            snprintf(path, PATH_MAX, "%s/%s", self, SAMPLE);
            if (access(path, X_OK) == 0)
                return NULL;
        }
    }
    snprintf(path, PATH_MAX, "%s/%s", HX_LIBEXEC, SAMPLE);
    if (access(path, X_OK) == 0)
        return NULL;
    return hx_error_new(HX_E_ABSENT, SAMPLE, "make, or make install",
                        "the sample program is neither beside heapx nor in %s", HX_LIBEXEC);
}

static void become_sample(const char *path, int out, pid_t parent)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGINT, SIG_IGN); /* it ends with us, not before us */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int in = open("/dev/null", O_RDWR);
    if (getppid() == parent && in >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
        dup2(in, STDERR_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execl(path, SAMPLE, (char *)NULL);
    _exit(127);
}

static hx_error *start_sample(struct sample *sample)
{
    char path[PATH_MAX];
    int ends[2];
    HX_TRY(find_sample(path));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return hx_error_os(errno, SAMPLE, "pipe");
    pid_t parent = getpid();
    sample->pid = fork();
    if (sample->pid == 0)
        become_sample(path, ends[1], parent);
    int err = errno;
    close(ends[1]);
    if (sample->pid < 0) {
        close(ends[0]);
        return hx_error_os(err, SAMPLE, "fork");
    }
    sample->out = ends[0];
    return NULL;
}

static void end_sample(struct sample *sample)
{
    if (sample->pid > 0) {
        kill(sample->pid, SIGKILL);
        while (waitpid(sample->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (sample->out >= 0)
        close(sample->out);
}

static hx_error *await_ready(const struct sample *sample)
{
    struct pollfd watch = {.fd = sample->out, .events = POLLIN};
    char said[8];
    int ready = poll(&watch, 1, READY_WITHIN_MS);
    if (atomic_load(hx_interrupted()))
        return hx_error_cancelled("demo");
    if (ready <= 0 || read(sample->out, said, sizeof said) <= 0)
        return hx_error_new(HX_E_FAIL, SAMPLE, NULL, "the sample program did not start");
    return NULL;
}

hx_error *hx_cmd_demo(const struct hx_args *args, int *status)
{
    __attribute__((cleanup(end_sample))) struct sample sample = {.pid = -1, .out = -1};
    HX_TRY(start_sample(&sample));
    HX_TRY(await_ready(&sample));
    char pid[16];
    snprintf(pid, sizeof pid, "%d", sample.pid);
    const char *roots[] = {"sessions=session_registry", "cache=page_cache"};
    struct hx_args shown = *args;
    if (!shown.n_roots) { /* so that there are bins to look at */
        shown.root = roots;
        shown.n_roots = sizeof roots / sizeof *roots;
    }
    if (!hx_args_given(args, HX_OPT_EVERY) && !args->script) /* it grows: that is to be seen */
        shown.every_ns = UINT64_C(2000000000);
    HX_SESSION struct hx_session session = {0};
    HX_TRY(hx_session_open(&shown, pid, &session));
    return hx_explore_process(&shown, &session, false, status);
}
