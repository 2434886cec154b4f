// A closed-loop HTTP/1.1 load generator in one thread: each client sends its next request when
// the answer to its last one is whole.
//
//   load -p PORT -b BODY_FILE [-c CLIENTS] [-d SECONDS] [-w WARM_SECONDS] [-u PATH]
//        [-H "Name: value"]... [-s] [-n CHUNKS]
//
// It connects to 127.0.0.1 only. -s: answers are streams of CHUNKS content events, which must come
// in order, each once, with [DONE] and no error event. One line of JSON comes out. Figures count
// what ended between WARM and WARM + SECONDS; `sent` and `whole` count everything: after the
// window no request is started, and those in flight may end (10 s at most), so that a gateway's
// records can be compared with `sent`.

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
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 1024, MAX_BODY = 1 << 20, LINE = 16384, READ = 1 << 17, DRAIN_S = 10 };

typedef enum { BY_LENGTH, CHUNKED, TO_THE_END } Framing;
typedef enum { SIZE, EXTENSION, DATA, AFTER_DATA, TRAILER_START, TRAILER } ChunkState;

typedef struct {
    int fd, answered;  // answers on this connection
    bool busy;
    long started;
    size_t written;
    // the head
    char head[LINE];
    size_t head_size;
    bool in_body, keep;
    int status;
    // the framing of the body
    Framing framing;
    ChunkState state;
    long left, size;
    // what the body says
    char line[LINE];
    size_t line_size;
    int next_token;
    bool wrong, done, failed, usage;
    bool got_first;
} Client;

typedef struct {
    unsigned *us;
    size_t count, room;
} Times;

static int epoll_fd, chunks_expected = 50;
static bool streaming;
static struct sockaddr_in target;
static char *request;
static size_t request_size;
static long warm_until, stop_at;
static bool stopping;
static Times latency, first_chunk;
static long sent, whole, chunks_total;                // over the whole run
static long ok, bad, no_usage, chunks, reconnects;    // bad: every kind of wrong answer
static char example[256];                             // of a bad answer

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static bool measured(long t) {
    return t >= warm_until && t < stop_at;
}

static void note(Times *times, long ns) {
    if (times->count == times->room) {
        times->room = times->room ? 2 * times->room : 65536;
        times->us = realloc(times->us, times->room * sizeof *times->us);
    }
    times->us[times->count++] = (unsigned)(ns / 1000);
}

static void watch(Client *c, int operation, bool writing) {
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, operation, c->fd, &e);
}

static void connect_again(Client *c) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connect(c->fd, (void *)&target, sizeof target);
    c->answered = 0;
    watch(c, EPOLL_CTL_ADD, true);
}

static void write_request(Client *c) {
    ssize_t size = send(c->fd, request + c->written, request_size - c->written, MSG_NOSIGNAL);
    if (size > 0)
        c->written += (size_t)size;
}

static void start(Client *c) {
    c->head_size = c->line_size = c->written = 0;
    c->in_body = c->wrong = c->done = c->failed = c->usage = c->got_first = false;
    c->status = c->next_token = 0;
    c->busy = true;
    c->started = now_ns();
    sent++;
    write_request(c);
    if (c->written < request_size)
        watch(c, EPOLL_CTL_MOD, true);
}

static void keep_example(const char *what, const Client *c) {
    if (example[0])
        return;
    snprintf(example, sizeof example, "%s, status %d: %.*s", what, c->status,
             (int)(c->line_size < 160 ? c->line_size : 160), c->line);
    for (char *p = example; *p; p++)  // it goes into a JSON string as it is
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 32)
            *p = '\'';
}

static void read_token(Client *c, const char *at) {
    long t = now_ns();
    if (!c->got_first && measured(t))
        note(&first_chunk, t - c->started);
    c->got_first = true;
    c->wrong |= atoi(at + 3) != c->next_token++;
    chunks_total++;
    chunks += measured(t);
}

static void read_line(Client *c) {
    c->line[c->line_size] = 0;
    if (!streaming || strncmp(c->line, "data:", 5) != 0)
        return;
    if (strstr(c->line, "[DONE]")) {
        c->done = true;
        return;
    }
    char *token = strstr(c->line, "\"tok");
    if (token)
        read_token(c, token + 1);
    if (strstr(c->line, "\"total_tokens\""))
        c->usage = true;
    if (strstr(c->line, "\"error\"")) {
        c->failed = true;
        keep_example("error event", c);
    }
}

static void read_body(Client *c, const char *p, size_t size) {
    while (size > 0) {
        const char *end = streaming ? memchr(p, '\n', size) : NULL;
        size_t part = end ? (size_t)(end - p) : size, room = LINE - 1 - c->line_size;
        memcpy(c->line + c->line_size, p, part < room ? part : room);
        c->line_size += part < room ? part : room;
        if (end) {
            read_line(c);
            c->line_size = 0;
            part++;
        }
        p += part;
        size -= part;
    }
}

static bool is_right(Client *c, bool complete) {
    if (!complete || c->status != 200)
        return false;
    if (streaming)
        return c->next_token == chunks_expected && !c->wrong && c->done && !c->failed;
    c->line[c->line_size] = 0;
    c->usage = strstr(c->line, "\"total_tokens\"") != NULL;
    return c->usage || c->line_size == LINE - 1;
}

static void finish(Client *c, bool complete) {
    long t = now_ns();
    bool right = is_right(c, complete);
    c->busy = false;
    whole += complete;
    if (!right)
        keep_example(complete ? "wrong answer" : "cut short", c);
    if (!right) {
        bad++;
    } else if (measured(t)) {
        ok++;
        no_usage += !c->usage;
        note(&latency, t - c->started);
    }
}

static void read_head(Client *c) {
    c->status = atoi(c->head + 9);
    c->in_body = c->keep = true;
    c->framing = TO_THE_END;
    c->state = SIZE;
    c->left = c->size = 0;
    for (char *line = strchr(c->head, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (!strncasecmp(line, "content-length:", 15)) {
            c->framing = BY_LENGTH;
            c->left = atol(line + 15);
        } else if (!strncasecmp(line, "transfer-encoding:", 18)) {
            c->framing = CHUNKED;
        } else if (!strncasecmp(line, "connection:", 11) && strcasestr(line, "close")) {
            c->keep = false;
        }
    }
}

static int hex(char digit) {
    return digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10;
}

// Takes one byte of chunked coding that is not data. True at the end of the body.
static bool chunk_byte(Client *c, char byte) {
    switch (c->state) {
    case SIZE:
        if (byte == ';')
            c->state = EXTENSION;
        else if (byte != '\n' && byte != '\r')
            c->size = 16 * c->size + hex(byte);
        __attribute__((fallthrough));  // a line feed ends the size line, with or without an extension
    case EXTENSION:
        if (byte == '\n')
            c->state = c->size ? DATA : TRAILER_START;
        return false;
    case AFTER_DATA:
        if (byte == '\n')
            c->state = SIZE;
        return false;
    case TRAILER_START:
        if (byte == '\n')
            return true;
        if (byte != '\r')
            c->state = TRAILER;
        return false;
    default:
        if (byte == '\n')
            c->state = TRAILER_START;
        return false;
    }
}

// True when the answer is whole.
static bool feed(Client *c, const char *p, size_t size) {
    if (!c->in_body) {
        size_t before = c->head_size, room = LINE - 1 - before;
        size_t part = size < room ? size : room;
        memcpy(c->head + before, p, part);
        c->head_size += part;
        c->head[c->head_size] = 0;
        char *end = strstr(c->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
        if (!end)
            return false;
        size_t used = (size_t)(end + 4 - c->head) - before;
        *end = 0;
        read_head(c);
        p += used;
        size -= used;
        if (c->framing == BY_LENGTH && c->left == 0)
            return true;
    }
    while (size > 0) {
        if (c->framing == CHUNKED && c->state != DATA) {
            size--;
            if (chunk_byte(c, *p++))
                return true;
            if (c->state == DATA)
                c->left = c->size;
            continue;
        }
        size_t part = size;
        if (c->framing != TO_THE_END && (long)part > c->left)
            part = (size_t)c->left;
        read_body(c, p, part);
        p += part;
        size -= part;
        c->left -= (long)part;
        if (c->framing == BY_LENGTH && c->left == 0)
            return true;
        if (c->framing == CHUNKED && c->left == 0) {
            c->state = AFTER_DATA;
            c->size = 0;
        }
    }
    return false;
}

static void start_again(Client *c) {
    if (!stopping)
        start(c);
}

static void closed(Client *c) {
    // A kept-alive connection closed before any byte of an answer: the request was not taken.
    bool untaken = c->busy && c->head_size == 0 && c->answered > 0;
    if (untaken)
        sent--;
    else if (c->busy)
        finish(c, c->in_body && c->framing == TO_THE_END);
    c->busy = false;
    close(c->fd);
    if (++reconnects > 20000)  // nobody is there: do not spin
        stopping = true;
    if (stopping)
        return;
    connect_again(c);
    start(c);
}

static void readable(Client *c, char *buffer) {
    ssize_t got = recv(c->fd, buffer, READ, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        closed(c);
    } else if (c->busy && feed(c, buffer, (size_t)got)) {
        finish(c, true);
        c->answered++;
        if (!c->keep) {
            close(c->fd);
            reconnects++;
            connect_again(c);
        }
        start_again(c);
    }
}

static void ready(Client *c, unsigned events, char *buffer) {
    if (events & EPOLLOUT) {
        if (c->busy && c->written < request_size)
            write_request(c);
        if (!c->busy || c->written == request_size)
            watch(c, EPOLL_CTL_MOD, false);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        readable(c, buffer);
}

static int by_size(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

// In milliseconds; null in the JSON where nothing was measured.
static const char *quantile(Times *times, double q) {
    static char texts[8][32];
    static int next;
    char *out = texts[next++ % 8];
    if (!times->count)
        return "null";
    sprintf(out, "%.3f", times->us[(size_t)(q * (double)(times->count - 1))] / 1000.0);
    return out;
}

static void print_figures(double seconds, long in_flight) {
    qsort(latency.us, latency.count, sizeof(unsigned), by_size);
    qsort(first_chunk.us, first_chunk.count, sizeof(unsigned), by_size);
    printf("{\"ok\":%ld,\"bad\":%ld,\"example\":\"%s\",\"rps\":%.2f,\"chunks_s\":%.2f,", ok, bad,
           example, (double)ok / seconds, (double)chunks / seconds);
    printf("\"p50_ms\":%s,\"p99_ms\":%s,\"ttft_p50_ms\":%s,\"ttft_p99_ms\":%s,",
           quantile(&latency, 0.5), quantile(&latency, 0.99), quantile(&first_chunk, 0.5),
           quantile(&first_chunk, 0.99));
    printf("\"no_usage\":%ld,\"reconnects\":%ld,\"sent\":%ld,\"whole\":%ld,\"in_flight\":%ld,"
           "\"chunks\":%ld}\n",
           no_usage, reconnects, sent, whole, in_flight, chunks_total);
}

static void build_request(const char *path, const char *headers, const char *body_file, int port) {
    FILE *file = fopen(body_file, "rb");
    char *body = malloc(MAX_BODY);
    if (!file) {
        fprintf(stderr, "load: %s: %s\n", body_file, strerror(errno));
        exit(2);
    }
    size_t size = fread(body, 1, MAX_BODY, file);
    fclose(file);
    int head = asprintf(&request,
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                        "Content-Type: application/json\r\nAccept: */*\r\n"
                        "User-Agent: OpenAI/Python 2.8.0\r\n%sContent-Length: %zu\r\n\r\n",
                        path, port, headers, size);
    request = realloc(request, (size_t)head + size);
    memcpy(request + head, body, size);
    request_size = (size_t)head + size;
    free(body);
}

static long run(int client_count, Client *clients) {
    struct epoll_event events[256];
    char *buffer = malloc(READ);
    for (int i = 0; i < client_count; i++) {
        connect_again(&clients[i]);
        start(&clients[i]);
    }
    for (;;) {
        long t = now_ns(), in_flight = 0;
        if (t >= stop_at)
            stopping = true;
        for (int i = 0; stopping && i < client_count; i++)
            in_flight += clients[i].busy;
        if (stopping && (in_flight == 0 || t >= stop_at + DRAIN_S * 1000000000L))
            return in_flight;
        int count = epoll_wait(epoll_fd, events, 256, 20);
        for (int i = 0; i < count; i++)
            ready(events[i].data.ptr, events[i].events, buffer);
    }
}

int main(int argc, char **argv) {
    int option, port = 0, client_count = 1;
    double seconds = 2, warm = 0.5;
    char *body_file = NULL, *path = "/v1/chat/completions", headers[4096] = "";
    while ((option = getopt(argc, argv, "p:c:d:w:b:u:H:sn:")) != -1) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 'c': client_count = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'b': body_file = optarg; break;
        case 'u': path = optarg; break;
        case 's': streaming = true; break;
        case 'n': chunks_expected = atoi(optarg); break;
        case 'H':
            if (strlen(headers) + strlen(optarg) + 3 > sizeof headers)
                return 2;
            strcat(strcat(headers, optarg), "\r\n");
        }
    }
    if (!body_file || port <= 0 || client_count < 1 || client_count > MAX_CLIENTS ||
        seconds <= 0 || warm < 0 || seconds + warm > 120) {
        fprintf(stderr, "load: a port, a body file, 1 to %d clients, at most 120 s\n", MAX_CLIENTS);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    build_request(path, headers, body_file, port);
    target = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    epoll_fd = epoll_create1(0);
    warm_until = now_ns() + (long)(warm * 1e9);
    stop_at = warm_until + (long)(seconds * 1e9);
    long in_flight = run(client_count, calloc((size_t)client_count, sizeof(Client)));
    print_figures(seconds, in_flight);
    return 0;
}
