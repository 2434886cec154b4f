// A stand-in engine for measurements: an OpenAI-shaped HTTP/1.1 server in one thread.
//
//   upstream [-n CHUNKS] PORT [PORT ...]
//
// It listens on 127.0.0.1 only. A chat request gets one fixed JSON answer, or, with "stream": true,
// CHUNKS content events (default 50), each in a write of its own and without any pause, then the
// finish event, the usage if it was asked for, and [DONE]. Content counts up (tok0000 tok0001 ...),
// so that load.c can tell a lost or repeated event. Anything that is not a POST gets 200.
// It ends on SIGTERM, or when its parent does.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CHUNKS = 4000, MAX_REQUEST = 1 << 20, MAX_EVENTS = 512 };

typedef struct {
    char *bytes;
    size_t size;
} Text;

typedef struct {
    int fd;
    bool gone;
    char *in;  // what has arrived of the next request, always ended by a zero byte
    size_t in_size, in_room;
    char *out;  // what the socket did not take yet
    size_t out_size, out_sent, out_room;
    int stream_at;  // index in `streams`, or -1
    int next_chunk;
    bool usage;
} Conn;

static int epoll_fd, chunk_count = 50;
static Conn **streams;  // every connection that is in the middle of a streamed answer
static int stream_count, stream_room;
static Text chunks[MAX_CHUNKS], stream_head, stream_end, stream_end_usage, answer, models, fine;

#define HEADERS                                                                          \
    "x-request-id: req_0123456789abcdef0123456789abcdef\r\nopenai-processing-ms: 12\r\n"
#define EVENT                                                                            \
    "data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\","                       \
    "\"object\":\"chat.completion.chunk\",\"created\":1760000000,"                       \
    "\"model\":\"stand-in/tiny-chat-7b-instruct\",\"system_fingerprint\":\"fp_44709d6fcb\","
#define USAGE                                                                            \
    "\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":50,\"total_tokens\":74,"      \
    "\"prompt_tokens_details\":{\"cached_tokens\":16},"                                  \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0}}"

static Text text(const char *bytes) {
    return (Text){strdup(bytes), strlen(bytes)};
}

// One event as a chunk of HTTP/1.1's chunked coding.
static Text coded(const char *event) {
    char *bytes;
    int size = asprintf(&bytes, "%zx\r\n%s\r\n", strlen(event), event);
    return (Text){bytes, (size_t)size};
}

static Text joined(Text a, Text b) {
    char *bytes = malloc(a.size + b.size + 1);
    memcpy(bytes, a.bytes, a.size);
    memcpy(bytes + a.size, b.bytes, b.size + 1);
    return (Text){bytes, a.size + b.size};
}

static Text json_answer(const char *body) {
    char *bytes;
    int size = asprintf(&bytes,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n" HEADERS "\r\n%s",
                        strlen(body), body);
    return (Text){bytes, (size_t)size};
}

// Every answer is made once, before the first request.
static void prepare(void) {
    for (int i = 0; i < chunk_count; i++) {
        char *event;
        if (asprintf(&event,
                     EVENT "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok%04d \"},"
                           "\"logprobs\":null,\"finish_reason\":null}]}\n\n",
                     i) < 0)
            abort();
        chunks[i] = coded(event);
        free(event);
    }
    stream_head = joined(
        text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
             "Transfer-Encoding: chunked\r\n" HEADERS "\r\n"),
        coded(EVENT "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                    "\"logprobs\":null,\"finish_reason\":null}]}\n\n"));
    Text finish = coded(EVENT "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,"
                              "\"finish_reason\":\"stop\"}]}\n\n");
    Text done = joined(coded("data: [DONE]\n\n"), text("0\r\n\r\n"));
    stream_end = joined(finish, done);
    stream_end_usage = joined(finish, joined(coded(EVENT "\"choices\":[]," USAGE "}\n\n"), done));
    answer = json_answer(
        "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion\","
        "\"created\":1760000000,\"model\":\"stand-in/tiny-chat-7b-instruct\",\"choices\":["
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"The capital of France is "
        "Paris, on the Seine.\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
        USAGE ",\"system_fingerprint\":\"fp_44709d6fcb\"}");
    models = json_answer("{\"object\":\"list\",\"data\":[{\"id\":\"tiny-chat\",\"object\":\"model\","
                         "\"created\":1760000000,\"owned_by\":\"bench\",\"max_model_len\":131072}]}");
    fine = json_answer("{\"status\":\"ok\"}");
}

static void watch(Conn *c, bool writing) {
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void write_out(Conn *c, Text t) {
    if (c->gone)
        return;
    if (c->out_size == 0) {
        ssize_t sent = send(c->fd, t.bytes, t.size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            c->gone = true;
            return;
        }
        if (sent < 0)
            sent = 0;
        if ((size_t)sent == t.size)
            return;
        t.bytes += sent;
        t.size -= (size_t)sent;
        watch(c, true);
    }
    if (c->out_size + t.size > c->out_room) {
        c->out_room = 2 * (c->out_size + t.size);
        c->out = realloc(c->out, c->out_room);
    }
    memcpy(c->out + c->out_size, t.bytes, t.size);
    c->out_size += t.size;
}

static void leave_streams(Conn *c) {
    if (c->stream_at < 0)
        return;
    Conn *last = streams[--stream_count];
    streams[c->stream_at] = last;
    last->stream_at = c->stream_at;
    c->stream_at = -1;
}

static void close_conn(Conn *c) {
    leave_streams(c);
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

// True if `name` is in the body with the value true, written the way JSON libraries do.
static bool is_true(const char *body, const char *name) {
    const char *at = strstr(body, name);
    if (!at)
        return false;
    at += strlen(name);
    while (*at == ' ' || *at == ':')
        at++;
    return strncmp(at, "true", 4) == 0;
}

static void answer_request(Conn *c, const char *head, const char *body) {
    if (strncmp(head, "POST ", 5) != 0) {
        char *models_path = memmem(head, strcspn(head, "\r"), "/models", 7);
        write_out(c, models_path ? models : fine);
    } else if (!is_true(body, "\"stream\"")) {
        write_out(c, answer);
    } else {
        c->usage = is_true(body, "\"include_usage\"");
        c->next_chunk = 0;
        if (stream_count == stream_room)
            streams = realloc(streams, (size_t)(stream_room += 1024) * sizeof *streams);
        c->stream_at = stream_count;
        streams[stream_count++] = c;
        write_out(c, stream_head);
    }
}

// Answers every whole request that has arrived, one at a time: a stream ends before the next begins.
static void answer_what_arrived(Conn *c) {
    while (!c->gone && c->stream_at < 0 && c->in_size > 0) {
        char *end = memmem(c->in, c->in_size, "\r\n\r\n", 4);
        if (!end)
            return;
        size_t head = (size_t)(end + 4 - c->in), length = 0;
        *end = 0;
        char *field = strcasestr(c->in, "\r\ncontent-length:");
        if (field)
            length = strtoul(field + 17, NULL, 10);
        bool unknown_length = strcasestr(c->in, "\r\ntransfer-encoding:") != NULL;
        *end = '\r';
        if (unknown_length || length > MAX_REQUEST) {
            write_out(c, text("HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n"));
            c->gone = true;
            return;
        }
        if (c->in_size < head + length)
            return;
        char kept = c->in[head + length];  // the first byte of a pipelined request
        c->in[head + length] = 0;
        answer_request(c, c->in, c->in + head);
        c->in[head + length] = kept;
        c->in_size -= head + length;
        memmove(c->in, c->in + head + length, c->in_size + 1);
    }
}

static void receive(Conn *c) {
    if (c->in_room - c->in_size < 4096)
        c->in = realloc(c->in, c->in_room = 2 * c->in_room + 8192);
    ssize_t got = recv(c->fd, c->in + c->in_size, c->in_room - c->in_size - 1, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN) || c->in_size > 2 * MAX_REQUEST) {
        c->gone = true;
    } else if (got > 0) {
        c->in_size += (size_t)got;
        c->in[c->in_size] = 0;
        answer_what_arrived(c);
    }
}

static void flush_out(Conn *c) {
    ssize_t sent = send(c->fd, c->out + c->out_sent, c->out_size - c->out_sent, MSG_NOSIGNAL);
    if (sent < 0) {
        c->gone = errno != EAGAIN;
        return;
    }
    c->out_sent += (size_t)sent;
    if (c->out_sent == c->out_size) {
        c->out_size = c->out_sent = 0;
        watch(c, false);
    }
}

// The next event of every stream whose client keeps up.
static void step_streams(void) {
    for (int i = stream_count - 1; i >= 0; i--) {
        Conn *c = streams[i];
        if (c->out_size > 0)
            continue;
        if (c->next_chunk < chunk_count) {
            write_out(c, chunks[c->next_chunk++]);
        } else {
            write_out(c, c->usage ? stream_end_usage : stream_end);
            leave_streams(c);
            answer_what_arrived(c);
        }
        if (c->gone)
            close_conn(c);
    }
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->stream_at = -1;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (void *)&at, sizeof at) || listen(fd, 4096)) {
        fprintf(stderr, "upstream: port %d: %s\n", port, strerror(errno));
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    int option, listeners[16], listener_count = 0;
    while ((option = getopt(argc, argv, "n:")) != -1)
        if (option == 'n')
            chunk_count = atoi(optarg);
    if (optind == argc || argc - optind > 16 || chunk_count < 1 || chunk_count > MAX_CHUNKS) {
        fprintf(stderr, "usage: upstream [-n CHUNKS (1 to %d)] PORT [PORT ...]\n", MAX_CHUNKS);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    prepare();
    epoll_fd = epoll_create1(0);
    for (int i = optind; i < argc; i++) {
        int *fd = &listeners[listener_count++];
        *fd = listen_on(atoi(argv[i]));
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, *fd, &e);
    }
    struct epoll_event events[MAX_EVENTS];
    for (;;) {
        // A stream that waits for its client is in `streams` too: then poll, but without spinning.
        bool blocked_only = true;
        for (int i = 0; i < stream_count && blocked_only; i++)
            blocked_only = streams[i]->out_size > 0;
        int count = epoll_wait(epoll_fd, events, MAX_EVENTS, blocked_only ? -1 : 0);
        for (int i = 0; i < count; i++) {
            int *fd = events[i].data.ptr;
            if (fd >= listeners && fd < listeners + listener_count) {
                accept_all(*fd);
                continue;
            }
            Conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT && c->out_size > 0)
                flush_out(c);
            if (!c->gone && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive(c);
            if (c->gone)
                close_conn(c);
        }
        step_streams();
    }
}
