package serve

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/web"
)

// Paths are the patterns of a http.ServeMux that a Handler answers, so that others can stand
// beside it.
var Paths = []string{"/v1/", "/health", "/ready", "/metrics", "/openapi.json"}

// HTTPOptions say how a server answers over HTTP. The zero value of each is a default.
type HTTPOptions struct {
	// Token that every request but those of /ready has to bring ("Authorization: Bearer …"); "": none,
	// and a request over TCP has to name this host by a loopback address.
	Token string
	// MaxBytes of a request's body; 0: DefaultLineBytes.
	MaxBytes int
	// Patience is how long a client may take for its body, and for taking each part of an answer;
	// 0: DefaultPatience.
	Patience time.Duration
}

const (
	// DefaultPatience is enough for the largest body over a slow line.
	DefaultPatience = 10 * time.Second
	// usualBody is room that a body has from the start, by what its head says.
	usualBody = 16 << 10
)

// openAPI describes what a Handler answers; a test holds it to that.
//
//go:embed openapi.json
var openAPI []byte

// handler is a server over HTTP.
type handler struct {
	s      *Server
	o      HTTPOptions
	token  [sha256.Size]byte                      // of o.Token
	routes map[string]map[string]http.HandlerFunc // by path and method
}

// Handler is the server over HTTP, on Paths; docs/reference/serve.md has what it answers. Any other path is
// 404.
func Handler(s *Server, o HTTPOptions) http.Handler {
	o.MaxBytes, o.Patience = cmp.Or(o.MaxBytes, DefaultLineBytes), cmp.Or(o.Patience, DefaultPatience)
	h := &handler{s: s, o: o, token: sha256.Sum256([]byte(o.Token))}
	h.routes = map[string]map[string]http.HandlerFunc{
		"/v1/stream":    {http.MethodGet: h.stream},
		"/health":       {http.MethodGet: h.health},
		"/ready":        {http.MethodGet: h.ready},
		"/metrics":      {http.MethodGet: h.metrics},
		"/openapi.json": {http.MethodGet: h.openAPI},
	}
	for _, o := range []op{opDecide, opRefine, opFront, opPreference, opClear, opReset} {
		h.routes["/v1/"+o.String()] = map[string]http.HandlerFunc{http.MethodPost: h.ask(o)}
	}
	return h
}

// problem is an error with the status that it is answered with.
type problem struct {
	status int
	err    error
}

func (p *problem) Error() string { return p.err.Error() }

func (p *problem) Unwrap() error { return p.err }

func problemf(status int, format string, args ...any) error {
	return &problem{status, fmt.Errorf(format, args...)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control, deadline := http.NewResponseController(w), time.Now().Add(h.o.Patience)
	control.SetReadDeadline(deadline)
	control.SetWriteDeadline(deadline)
	if h.s.Draining() {
		w.Header().Set("Connection", "close")
	}
	if err := h.permit(w, r); err != nil {
		h.fail(w, Answer{}, err)
		return
	}
	methods := h.routes[r.URL.Path]
	if methods == nil {
		h.fail(w, Answer{}, problemf(http.StatusNotFound, "there is no path %.64q; GET /openapi.json lists them", r.URL.Path))
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve := methods[method]
	if serve == nil {
		for name := range methods {
			w.Header().Set("Allow", name)
			h.fail(w, Answer{}, problemf(http.StatusMethodNotAllowed, "%s takes %s, the request is %.16q", r.URL.Path, name, r.Method))
		}
		return
	}
	serve(w, r)
}

// permit says why a request is not to be answered.
func (h *handler) permit(w http.ResponseWriter, r *http.Request) error {
	if err := web.SameSite(r); err != nil {
		return problemf(http.StatusForbidden, "another site's page asks: %w", err)
	}
	if h.o.Token == "" {
		// A page whose name was made to stand for this host has its own name here.
		if address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && address.Network() == "tcp" && !web.Loopback(r) {
			return problemf(http.StatusForbidden, "the request is for the host %.64q: without a token it has to name a loopback address", r.Host)
		}
		return nil
	}
	if r.URL.Path == "/ready" {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if sum := sha256.Sum256([]byte(token)); !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], h.token[:]) != 1 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="gpc"`)
		return problemf(http.StatusUnauthorized, "the header Authorization lacks the token of this server: Bearer TOKEN")
	}
	return nil
}

// isInput reports whether an error is the asker's.
func isInput(err error) bool {
	return errors.As(err, new(*FieldError)) || errors.As(err, new(gpc.InputError))
}

// statuses are those of HTTP for each refusal.
var statuses = [refusals]int{
	refusedInput: http.StatusBadRequest, refusedBusy: http.StatusTooManyRequests, refusedFull: http.StatusTooManyRequests,
	refusedClosing: http.StatusServiceUnavailable, refusedPanic: http.StatusInternalServerError, refusedError: http.StatusInternalServerError,
}

// statusOf is the status of an error.
func statusOf(err error) int {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.status
	}
	return statuses[refusalOf(err)]
}

// fail answers with an error.
func (h *handler) fail(w http.ResponseWriter, a Answer, err error) {
	h.answer(w, statusOf(err), Answer{Op: a.Op, Session: a.Session, Failure: FailureOf(err)})
}

// answer writes a JSON object.
func (h *handler) answer(w http.ResponseWriter, status int, v any) {
	h.writeObject(w, status, encoded(v))
}

// encoded is a JSON object.
func encoded(v any) []byte {
	text, err := finite.Marshal(v)
	if err != nil { // no value of ours has what JSON has not
		panic(err)
	}
	return append(text, '\n')
}

func (h *handler) writeObject(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	h.write(w, status, text)
}

func (h *handler) write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.o.Patience))
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write(text) // whoever asked may be gone
	if h.s.Draining() {
		http.NewResponseController(w).Flush() // the connection is closed when nobody is answering any more
	}
}

// ask answers an operation. What would be refused is so before its body is read, by a text that is
// there: a server that is asked for too much has no time to say so.
func (h *handler) ask(o op) http.HandlerFunc {
	refusal := func(err error) []byte { return encoded(Answer{Op: o.String(), Failure: FailureOf(err)}) }
	busy, closed := refusal(ErrBusy), refusal(ErrClosed)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		switch {
		case h.s.Draining():
			h.s.count(ErrClosed)
			h.writeObject(w, http.StatusServiceUnavailable, closed)
			return
		case h.s.busy(o):
			h.s.count(ErrBusy)
			h.writeObject(w, http.StatusTooManyRequests, busy)
			return
		}
		j := &job{op: o}
		err := h.parse(w, r, j, start)
		if err != nil {
			h.s.count(err)
			h.fail(w, j.reply(), err)
			return
		}
		h.s.answering.Add(1)
		defer h.s.answering.Add(-1)
		a, err := h.s.ask(r.Context(), j, start)
		switch {
		case err == nil:
			h.answer(w, http.StatusOK, a)
		case r.Context().Err() == nil:
			h.fail(w, j.reply(), err)
		}
	}
}

// parse reads a request.
func (h *handler) parse(w http.ResponseWriter, r *http.Request, j *job, start time.Time) error {
	tooLarge := problemf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes, the most that this server was started for", h.o.MaxBytes)
	if r.ContentLength > int64(h.o.MaxBytes) { // none of it is read
		return tooLarge
	}
	body := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), usualBody)+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, int64(h.o.MaxBytes)))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemf(http.StatusRequestTimeout, "the body did not come within %v", h.o.Patience)
	case err != nil:
		return problemf(http.StatusBadRequest, "the body was not read: %w", err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // from now on a read waits for the next request, or the end
	fields, err := jsonin.Object(body.Bytes(), "body", example)
	if err == nil {
		err = h.s.parse(j, fields, start)
	}
	if err != nil && !isInput(err) {
		err = &problem{http.StatusBadRequest, err}
	}
	return err
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	h.answer(w, http.StatusOK, Answer{Op: opHealth.String(), Health: new(h.s.Health())})
}

// Readiness is the answer to GET /ready.
type Readiness struct {
	Ready bool `json:"ready"` // false while it drains
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusOK
	if h.s.Draining() {
		status = http.StatusServiceUnavailable
	}
	h.answer(w, status, Readiness{status == http.StatusOK})
}

func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	var text strings.Builder
	h.s.WriteMetrics(&text) // into memory, which has no errors
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.write(w, http.StatusOK, []byte(text.String()))
}

func (h *handler) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	h.write(w, http.StatusOK, openAPI)
}
