package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/finite"
)

// ClientOptions say how a server is reached. The zero value of each is a default.
type ClientOptions struct {
	Token string // that the server demands; "": none
	// CA is a PEM file of the certificates that a server's is trusted by; "": the system's.
	CA string
	// Connections that are kept for the next request; 0: 16.
	Connections int
}

// Client asks a server over HTTP. Its methods may be called by any goroutine.
type Client struct {
	endpoint string // http://host:port
	token    string
	http     *http.Client
}

// StatusError is what a server answered in place of what it was asked for.
type StatusError struct {
	Status int // of HTTP
	Failure
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("serve: %d %s: %s", e.Status, http.StatusText(e.Status), e.Failure.Error)
}

// Dial is a client of the server at http://HOST:PORT, https://HOST:PORT or unix:PATH. Nothing is
// asked yet.
func Dial(endpoint string, o ClientOptions) (*Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: max(16, o.Connections), IdleConnTimeout: idlePatience / 2}
	c := &Client{token: o.Token, http: &http.Client{Transport: transport}}
	if path, ok := strings.CutPrefix(endpoint, "unix:"); ok && path != "" {
		c.endpoint = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, gpc.BadInput(fmt.Errorf("serve: the address %q: want http://HOST:PORT, https://HOST:PORT or unix:PATH", endpoint))
	}
	c.endpoint = u.Scheme + "://" + u.Host
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, gpc.BadInput(fmt.Errorf("serve: the certificates: %w", err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, gpc.BadInput(fmt.Errorf("serve: %s holds no certificate", o.CA))
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return c, nil
}

// Close gives up the connections that wait.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Decide asks for a decision of a session; see Server.Decide. An error that the server answered is
// a *StatusError.
func (c *Client) Decide(ctx context.Context, session string, r Request) (*Decision, error) {
	ask := map[string]any{"session": session, "s": r.S, "c": r.C}
	if r.Y != nil {
		ask["y"] = r.Y
		delete(ask, "s")
	}
	if r.Preference != nil {
		ask["preference"] = weightsOf(r.Preference)
	}
	if !r.Deadline.IsZero() {
		ask["deadline_ms"] = max(1e-3, float64(time.Until(r.Deadline))/1e6)
	}
	if !r.Observed.IsZero() {
		ask["observed_ms"] = float64(r.Observed.UnixNano()) / 1e6
	}
	d := &Decision{Margin: math.NaN(), Residual: math.NaN(), Displacement: math.NaN()} // what a null leaves
	if err := c.ask(ctx, http.MethodPost, "/v1/decide", ask, d); err != nil {
		return nil, err
	}
	return d, nil
}

// SetPreference sets the preference of a session's requests that state none.
func (c *Client) SetPreference(ctx context.Context, session string, p domain.Preference) error {
	return c.ask(ctx, http.MethodPost, "/v1/preference", map[string]any{"session": session, "preference": weightsOf(&p)}, nil)
}

// Clear ends the fallback that a stale observation has led a session to.
func (c *Client) Clear(ctx context.Context, session string) error {
	return c.ask(ctx, http.MethodPost, "/v1/clear", map[string]any{"session": session}, nil)
}

// Reset ends a session.
func (c *Client) Reset(ctx context.Context, session string) error {
	return c.ask(ctx, http.MethodPost, "/v1/reset", map[string]any{"session": session}, nil)
}

// Health asks what the server is and what it has done.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	var a Answer
	if err := c.ask(ctx, http.MethodGet, "/health", nil, &a); err != nil {
		return nil, err
	}
	if a.Health == nil {
		return nil, fmt.Errorf("serve: %s does not answer GET /health as gpc serve does", c.endpoint)
	}
	return a.Health, nil
}

// weightsOf is a preference as a request states it.
func weightsOf(p *domain.Preference) any {
	switch {
	case p.Goal != nil:
		return p.Goal // its objectives have no names here: the server refuses it
	case p.Adaptive:
		return nil
	}
	return p.W
}

// ask sends a request, nil for none, and reads the answer into dst unless that is nil.
func (c *Client) ask(ctx context.Context, method, path string, content map[string]any, dst any) error {
	var body io.Reader
	if content != nil {
		text, err := finite.Marshal(content)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		e := &StatusError{Status: answer.StatusCode}
		if json.Unmarshal(text, &e.Failure) != nil || e.Failure.Error == "" {
			return errors.Join(e, fmt.Errorf("serve: %s answers %.200q", c.endpoint, text))
		}
		return e
	}
	if dst == nil {
		return nil
	}
	if err := json.Unmarshal(text, dst); err != nil {
		return fmt.Errorf("serve: the answer of %s cannot be read: %w", c.endpoint, err)
	}
	return nil
}

// Controller is a session of the server as a method that decides in a closed loop. Each of its
// decisions has a deadline so much later; 0: none. The context ends what it waits for.
func (c *Client) Controller(ctx context.Context, session string, deadline time.Duration) domain.Controller {
	return &remote{ctx: ctx, client: c, session: session, deadline: deadline}
}

type remote struct {
	ctx      context.Context
	client   *Client
	session  string
	deadline time.Duration
}

func (r *remote) Reset(domain.Episode) error { return r.client.Reset(r.ctx, r.session) }

// Abilities has what a plant whose state is estimated measures decided by the server's estimate.
func (r *remote) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{DecideMeasured: func(y, c []float64, p domain.Preference, s, estimated, u []float64) (domain.Decision, error) {
		d, answer, err := r.decide(Request{Y: y, C: c, Preference: &p}, u)
		if err == nil && answer.Estimate != nil {
			copy(s, answer.Estimate.S)
			copy(estimated, answer.Estimate.C)
		}
		return d, err
	}}
}

func (r *remote) Decide(s, c []float64, p domain.Preference, u []float64) (domain.Decision, error) {
	d, _, err := r.decide(Request{S: s, C: c, Preference: &p}, u)
	return d, err
}

func (r *remote) decide(ask Request, u []float64) (domain.Decision, *Decision, error) {
	now := time.Now()
	if ask.Observed = now; r.deadline > 0 {
		ask.Deadline = now.Add(r.deadline)
	}
	d, err := r.client.Decide(r.ctx, r.session, ask)
	if err != nil {
		return domain.Decision{}, nil, err
	}
	if copy(u, d.U) != len(u) {
		return domain.Decision{}, nil, fmt.Errorf("serve: the server decides actions of %d entries, want %d", len(d.U), len(u))
	}
	return domain.Decision{Sigma: d.Sigma, Residual: d.Residual, Limit: d.ResidualLimit, Displacement: d.Displacement, Fallback: domain.Fallback(d.Fallback)}, d, nil
}
