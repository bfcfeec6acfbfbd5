/* chatd.cc - the server of doc/guide.md: rooms that people join over TCP, and a leak.
 *
 *   chatd [PORT]      a line is a word and an argument: join ROOM, say TEXT, quit
 *
 * Nothing is lost in it: every block can be reached from a global variable, so that a leak checker
 * is content. Yet it grows with each visitor.
 */
#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace chat
{

class Listener
{
public:
    virtual ~Listener() = default;
    virtual void hear(const std::string &text) = 0;
};

class Session : public Listener
{
public:
    explicit Session(int fd) : fd_(fd), transcript_(16 * 1024, '\0') {}
    ~Session() override { close_socket(); }
    void hear(const std::string &text) override;
    void close_socket();
    int fd() const { return fd_; }
    std::string pending;
    std::string room;

private:
    int fd_;
    std::vector<char> transcript_; /* the last of what was heard */
    size_t heard_ = 0;
};

void Session::hear(const std::string &text)
{
    for (char c : text)
        transcript_[heard_++ % transcript_.size()] = c;
    if (fd_ >= 0 && write(fd_, text.data(), text.size()) < 0)
        close_socket();
}

void Session::close_socket()
{
    if (fd_ >= 0)
        close(fd_);
    fd_ = -1;
}

class Room
{
public:
    virtual ~Room() = default;
    void join(std::shared_ptr<Session> session) { listeners_.push_back(std::move(session)); }
    void say(const std::string &text)
    {
        history_.push_back(text);
        if (history_.size() > 100)
            history_.pop_front();
        for (auto &listener : listeners_)
            listener->hear(text);
    }

private:
    std::vector<std::shared_ptr<Listener>> listeners_; /* nobody ever leaves: the bug */
    std::deque<std::string> history_;
};

} // namespace chat

static std::map<std::string, std::unique_ptr<chat::Room>> rooms;
static std::map<int, std::shared_ptr<chat::Session>> sessions;

static chat::Room &find_room(const std::string &name)
{
    auto &room = rooms[name];
    if (!room)
        room = std::make_unique<chat::Room>();
    return *room;
}

static void accept_visitor(int fd)
{
    sessions[fd] = std::make_shared<chat::Session>(fd);
}

/* False: the visitor leaves. */
static bool handle_line(const std::shared_ptr<chat::Session> &session, const std::string &line)
{
    if (line.rfind("join ", 0) == 0) {
        session->room = line.substr(5);
        find_room(session->room).join(session);
    } else if (line.rfind("say ", 0) == 0 && !session->room.empty()) {
        find_room(session->room).say(line.substr(4) + "\n");
    }
    return line != "quit";
}

static bool read_lines(const std::shared_ptr<chat::Session> &session)
{
    char bytes[4096];
    ssize_t n = read(session->fd(), bytes, sizeof bytes);
    if (n <= 0)
        return false;
    session->pending.append(bytes, static_cast<size_t>(n));
    for (size_t end; (end = session->pending.find('\n')) != std::string::npos;) {
        std::string line = session->pending.substr(0, end);
        session->pending.erase(0, end + 1);
        if (!handle_line(session, line))
            return false;
    }
    return true;
}

static int listen_on(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) < 0 ||
        listen(fd, 64) < 0) {
        perror("chatd");
        exit(1);
    }
    socklen_t length = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length);
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void serve(int listening)
{
    for (;;) {
        std::vector<pollfd> fds = {{listening, POLLIN, 0}};
        for (auto &[fd, session] : sessions)
            fds.push_back({fd, POLLIN, 0});
        poll(fds.data(), fds.size(), -1);
        if (fds[0].revents)
            accept_visitor(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
        for (size_t i = 1; i < fds.size(); i++) {
            if (!fds[i].revents || read_lines(sessions[fds[i].fd]))
                continue;
            sessions[fds[i].fd]->close_socket();
            sessions.erase(fds[i].fd);
        }
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    serve(listen_on(argc > 1 ? atoi(argv[1]) : 0));
}
