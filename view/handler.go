package view

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/internal/web"
	"github.com/gpc-engine/gpc/serve"
)

// page is what the browser is given; ui/build.mjs writes all of it but index.html.
//
//go:embed page/index.html page/app.js page/app.css page/icon.svg
var page embed.FS

// policy lets the page do what it does and nothing else: no other host is ever asked.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	// bodyBytes of a request at most.
	bodyBytes = 64 << 10
	// mostWatchers at once.
	mostWatchers = 64
	// writeLimit is how long a watcher may take to take an event.
	writeLimit = 10 * time.Second
	// aliveEvery is how often a watcher is told that the server is there: the page takes it for gone after
	// three times as long without a word.
	aliveEvery = 2 * time.Second
)

// Handler is the page and its API under /view/. What the API is, docs/reference/view.md says.
type Handler struct {
	mux    *http.ServeMux
	player *player
}

// New shows a source at so many decisions a second, which a person at the page may change, and
// begins to play at once where that is asked for. Close ends it.
func New(source Source, rate float64, playing bool) *Handler {
	h := &Handler{player: newPlayer(source, rate, playing)}
	mux := http.NewServeMux()
	static, err := fs.Sub(page, "page")
	if err != nil {
		panic("view: " + err.Error())
	}
	files := http.FileServerFS(static)
	mux.Handle("GET /{$}", files)
	for _, name := range []string{"app.js", "app.css", "icon.svg"} {
		mux.Handle("GET /view/"+name, http.StripPrefix("/view", files))
	}
	p := h.player
	mux.HandleFunc("GET /view/case", answer(p, func(*http.Request) (any, error) { return p.source.Describe(), nil }))
	mux.HandleFunc("GET /view/state", answer(p, func(*http.Request) (any, error) { return p.state(), nil }))
	mux.HandleFunc("GET /view/series", numbered(p, "from", "0", func(_ *http.Request, k int) (any, error) { return p.series(k), nil }))
	mux.HandleFunc("GET /view/frame", numbered(p, "k", "", func(_ *http.Request, k int) (any, error) { return p.frame(k) }))
	mux.HandleFunc("GET /view/sessions", answer(p, func(*http.Request) (any, error) { return p.sessions() }))
	mux.HandleFunc("GET /view/link", answer(p, func(*http.Request) (any, error) {
		running, err := p.live()
		if err != nil {
			return nil, err
		}
		return running.Link(p.position)
	}))
	mux.HandleFunc("GET /view/trace", h.trace)
	mux.HandleFunc("GET /view/exact", h.exact)
	mux.HandleFunc("GET /view/events", h.events)
	mux.HandleFunc("POST /view/seen", numbered(p, "at", "", func(r *http.Request, id int) (any, error) {
		for w := range p.watchers {
			if w.page == r.URL.Query().Get("page") {
				w.confirm(id)
			}
		}
		return struct{}{}, nil
	}))
	post(mux, p, "preference", "w", "a list of weights, or null for the adaptive priority", func(w *[]float64) error {
		if w == nil {
			return p.steer(domain.Preference{Adaptive: true})
		}
		return p.steer(domain.Preference{W: *w})
	})
	post(mux, p, "pause", "paused", "true or false", func(v *bool) error { return p.pause(v) })
	post(mux, p, "step", "by", "1 or -1", func(v *int) error { return p.step(v) })
	post(mux, p, "rate", "hz", "decisions a second", func(v *float64) error { return p.setRate(v) })
	post(mux, p, "seek", "k", "the number of a frame", func(v *int) error { return p.seek(v) })
	post(mux, p, "reset", "episode", "the number of an episode, or null for the next one", func(v *int) error { return p.reset(v) })
	post(mux, p, "session", "session", "the name of a session, or null for the plant beside the server", func(v *string) error { return p.follow(v) })
	post(mux, p, "change", "change", "an object with the field to change", func(v *json.RawMessage) error { return p.change(v) })
	post(mux, p, "seed", "seed", "a whole number from 0", func(v *uint64) error { return p.seed(v) })
	post(mux, p, "link", "link", "what GET /view/link answers", func(v *Link) error { return p.relive(v) })
	h.mux = mux
	return h
}

// Close ends the loop and every stream of events.
func (h *Handler) Close() { h.player.close() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-cache")
	if !web.Addressed(r) {
		fail(w, http.StatusForbidden, fmt.Errorf("the request names the host %.100q, want an IP address or localhost: other names are refused, against DNS rebinding", r.Host))
		return
	}
	if err := web.SameSite(r); err != nil && (r.URL.Path != "/" || r.Method != http.MethodGet) { // a link may lead to the page
		fail(w, http.StatusForbidden, fmt.Errorf("the request comes from another site's page: %w", err))
		return
	}
	w, end := web.Compress(w, r)
	defer end()
	handler, pattern := h.mux.Handler(r)
	if pattern == "" { // the mux refuses, in a text that is not JSON
		refusal := headOnly{ResponseWriter: w}
		handler.ServeHTTP(&refusal, r)
		fail(w, refusal.status, fmt.Errorf("there is no %.16q of the path %.64q", r.Method, r.URL.Path))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// headOnly takes an answer without its body, and keeps its status.
type headOnly struct {
	http.ResponseWriter
	status int
}

func (h *headOnly) WriteHeader(status int) { h.status = status }

func (h *headOnly) Write(p []byte) (int, error) { return len(p), nil }

// errGone is of what is not at hand.
var errGone = errors.New("the page is closing")

// answer asks in the player's own turn.
func answer(p *player, ask func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text []byte
		err := p.call(r.Context(), func() error {
			v, err := ask(r)
			if err == nil {
				text, err = finite.Marshal(v)
			}
			return err
		})
		if err != nil {
			fail(w, statusOf(err), err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(append(text, '\n'))
	}
}

// numbered asks about the whole number that a query has.
func numbered(p *player, name, otherwise string, ask func(r *http.Request, k int) (any, error)) http.HandlerFunc {
	return answer(p, func(r *http.Request) (any, error) {
		text := cmp.Or(r.URL.Query().Get(name), otherwise)
		k, err := strconv.Atoi(text)
		if err != nil {
			return nil, jsonin.Errorf(name, "%s is %.64q, want a whole number", name, text)
		}
		return ask(r, k)
	})
}

// post takes an object of one field. do is given nil for null.
func post[T any](mux *http.ServeMux, p *player, name, field, want string, apply func(v *T) error) {
	mux.HandleFunc("POST /view/"+name, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytes))
		if err != nil {
			fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("a body of at most %d bytes: %w", bodyBytes, err))
			return
		}
		v, err := soleField[T](text, field, want)
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		answer(p, func(*http.Request) (any, error) {
			err := apply(v)
			return p.state(), err
		})(w, r)
	})
}

// soleField is the one field of an object, nil for null.
func soleField[T any](text []byte, field, want string) (v *T, err error) {
	fields, err := jsonin.Object(text, "body", fmt.Sprintf("{%q:…}", field))
	if err != nil {
		return nil, err
	}
	v, present, err := jsonin.Nullable[T](fields, field, want)
	if err != nil {
		return nil, err
	}
	if err := fields.Nothing("the body"); err != nil {
		return nil, err
	}
	if !present {
		return nil, jsonin.Missing(field, want)
	}
	return v, nil
}

// statusOf is the status of an error that is the asker's, or 500.
func statusOf(err error) int {
	switch {
	case errors.As(err, new(*serve.FieldError)), errors.As(err, new(gpc.InputError)):
		return http.StatusBadRequest
	case errors.Is(err, ErrRecorded), errors.Is(err, errClients), errors.Is(err, errFixed), errors.Is(err, errInexact):
		return http.StatusConflict
	case errors.Is(err, errGone), errors.Is(err, context.Canceled), errors.Is(err, serve.ErrBusy), errors.Is(err, serve.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers as a line of Server.Lines is answered.
func fail(w http.ResponseWriter, status int, err error) {
	text, _ := json.Marshal(serve.FailureOf(err))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}

// trace is the episode that is shown as a file.
func (h *Handler) trace(w http.ResponseWriter, r *http.Request) {
	var text []byte
	var name string
	err := h.player.call(r.Context(), func() error {
		running, err := h.player.live()
		if err == nil {
			text, err = running.Recorded()
			d := h.player.source.Describe()
			name = fmt.Sprintf("%s-%s-%d.jsonl", d.Case, d.Method, h.player.source.Frame(h.player.position).Episode)
		}
		return err
	})
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": unsafe.ReplaceAllString(name, "_")}))
	w.Header().Set("Cache-Control", "no-store")
	w.Write(text)
}

// unsafe is what does not belong into the name of a file.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// exact is the exact front of the last frame. It is solved beside the player, for one page, until that goes.
func (h *Handler) exact(w http.ResponseWriter, r *http.Request) {
	var look func(context.Context) (*Exact, error)
	err := h.player.call(r.Context(), func() error {
		if source, ok := h.player.source.(exacts); ok {
			look = source.Exact()
		}
		if look == nil {
			return errInexact
		}
		return nil
	})
	var exact *Exact
	if err == nil {
		err = h.player.guarded(func() (err error) {
			exact, err = look(r.Context())
			return err
		})
	}
	answer(h.player, func(*http.Request) (any, error) { return exact, err })(w, r)
}

// exacts is a Source with an exact front of the last frame; nil: there is none.
type exacts interface {
	Exact() func(ctx context.Context) (*Exact, error)
}

// errInexact is of what has no exact front.
var errInexact = errors.New("no exact front here: of a trace, of a state that is estimated, or of a plant that was changed")

// events streams what happens until the watcher goes.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	watcher, err := h.player.watch(r.Context(), r.URL.Query().Get("page"))
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer h.player.leave(watcher)
	stream, err := web.NewStream(w, r, writeLimit)
	if err != nil || !stream.Send([]byte("retry: 1000\n\n")) {
		return
	}
	beat := time.NewTicker(aliveEvery)
	defer beat.Stop()
	for {
		for e, ok := watcher.next(); ok; e, ok = watcher.next() {
			if !watcher.send(stream, e) {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-h.player.ctx.Done():
			return
		case <-watcher.awake:
		case <-beat.C:
			// A comment would do for the connection, but a page does not see it.
			if !watcher.send(stream, event{"alive", clock(), fmt.Appendf(nil, `{"k":%d}`, h.player.newest.Load())}) {
				return
			}
		}
	}
}

// State is where the page stands.
type State struct {
	Playing bool    `json:"playing"`
	Rate    float64 `json:"hz"` // decisions a second
	K       int     `json:"k"`  // frame that is shown
	First   int     `json:"first"`
	Last    int     `json:"last"`
	// Start is drawn when the server starts: where it is another, the run of frames before it is gone.
	Start int64 `json:"start"`
	// Generation begins at Start and grows by one with every Reset, after which frames are others.
	Generation int64 `json:"generation"`
	// Order grows with every state: an event and an answer may come one before the other.
	Order      int64             `json:"order"`
	Preference domain.Preference `json:"preference"`
	Steers     bool              `json:"steers"`
	Seed       *uint64           `json:"seed"`    // of the plant's scenes; null: it cannot be chosen
	Session    *string           `json:"session"` // that is shown; null: what the page was made for
	Fault      string            `json:"fault"`   // why it has stopped; "" where nothing is wrong
	Version    string            `json:"version"`
}

// state is where the player stands.
func (p *player) state() *State {
	first, last := p.source.Range()
	var session *string
	if s, ok := p.source.(*Session); ok {
		session = &s.name
	}
	var seed *uint64
	if l, ok := p.source.(*Live); ok {
		seed = new(l.seed)
	}
	p.order++
	return &State{
		Seed: seed, Session: session, Order: p.order,
		Playing: p.playing, Rate: p.rate, K: p.position, First: first, Last: last, Start: p.start, Generation: p.generation, Preference: p.source.Preference(),
		Steers: p.source.Describe().Steers, Fault: p.fault, Version: version.Version,
	}
}
