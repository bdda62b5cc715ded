"""What evaluate, refine, drive and compile answer is a dictionary that is shown as a few figures."""

import copy
import json
import pickle

from gpc.results import CompileReport, Drive, Evaluation, Refinement, Result


def evaluation(**other):
    return Evaluation({
        "case": "cart", "method": "direct", "seed": 3, "episodes": 8, "safe": 0.875, "cost_mean": 321.67, "margin_min": -0.02, "fallback": 0, "decisions": 160,
        "regret": {"n": 7, "mean_pct": 0.02326, "median_pct": 0.02, "max_pct": None}, "latency_us": {
            "p50": 9.4, "p95": 20, "p99": 12204.6, "running": {"p50": 9.26, "p95": 19, "p99": 410.1}, "cold": {"p50": 12204.6, "p95": 13000, "p99": 13000},
        },
        "limits": [{"limit": "speed", "episodes": 1}, {"limit": "force", "episodes": 0}], **other,
    })


def test_an_evaluation_is_shown_as_an_aligned_table():
    assert repr(evaluation()) == """\
gpc.Evaluation, 12 keys
  case                            cart
  method                          direct
  episodes                        8, seed 3
  safe                            7 of 8
  limits broken                   speed in 1
  cost above the optimum, %       mean 0.0233, median 0.02, largest –, over 7 of 8 episodes
  cost of an episode              322
  least margin                    -0.02
  decision p50 / p99 (first), µs  9.26 / 410 (12205)"""


def test_what_there_is_not_is_not_shown():
    shown = dict(evaluation(regret={"n": 0}, latency_us=None, reached=1.0, late=4, limits=None).figures())
    assert shown["goal reached"] == "8 of 8" and shown["late"] == "4 of 160 decisions"
    assert not shown.keys() & {"cost above the optimum, %", "decision p50 / p99 (first), µs", "limits broken", "fallback"}


def test_what_episodes_were_driven_with_is_shown():
    driven = lambda **with_: dict(evaluation(**with_).figures()).get("driven with")  # noqa: E731
    assert driven() is None and driven(noise=0.0) is None
    assert driven(noise=0.02, delay=1.5) == "noise 0.02, a delay of 1.5 periods"
    assert driven(estimated=True) == "estimates of what is declared, 0 deviations kept off"
    assert driven(estimated=True, measured_noise=0.01, kept_off=3) == "estimates of every state at a noise of 0.01, 3 deviations kept off"
    assert driven(estimated=True, measured_noise=0.01, measured_states=["x", "swing"]).startswith("estimates of x, swing at")


def test_html_escapes():
    shown = evaluation(method="<b>&")._repr_html_()
    assert shown.startswith("<table><tr><td>case</td><td>cart</td></tr>") and "&lt;b&gt;&amp;" in shown and "<b>" not in shown


def test_it_stays_a_dictionary():
    e = evaluation()
    plain = dict(e)
    assert e == plain and json.loads(json.dumps(e)) == plain and repr(plain).startswith("{'case'")
    for other in (pickle.loads(pickle.dumps(e)), copy.deepcopy(e)):
        assert type(other) is Evaluation and other == e
    assert repr(Result(a=1.5, b=[1])) == "gpc.Result, 2 keys\n  a  1.5\n  b  list"


def test_answers_are_shown_shortly(cart):
    state, context = cart.observe()
    best, run, result = cart.refine(state, context, candidates=64), cart.drive(), cart.evaluate("direct", episodes=2)
    assert isinstance(best, Refinement) and isinstance(run, Drive) and isinstance(result, Evaluation)
    for answer in (best, run, result):
        lines = repr(answer).split("\n")
        assert len(lines) <= 14 and max(map(len, lines)) <= 120
    assert f"{best['feasible_candidates']} of 64 feasible" in repr(best)
    assert f"{len(run['t'])} × {len(cart.spec.state)}" in repr(run)
    assert f"over {result['regret']['n']} of 2 episodes" in repr(result) and len(json.dumps(result)) > 10 * len(repr(result))


def test_a_report_says_whether_the_target_is_met():
    test = {"method": "direct", "unsafe": 1, "episodes": 300, "floored_pct": 0.0202, "p90_pct": 0.047, "max_pct": 0.33, "p50_us": 7.6, "p99_us": None}
    report = CompileReport(test=test, met=False, target={"mean_pct": 0.5}, rounds=[{}] * 100, advice="a larger budget")
    assert repr(report) == """\
gpc.CompileReport, 5 keys
  method                     direct
  unsafe of unseen episodes  1 of 300
  cost above the optimum, %  0.0202 (p90 0.047, largest 0.33)
  decision p50 / p99, µs     7.6 / –
  target                     0.5 %, missed
  what would help            a larger budget"""
