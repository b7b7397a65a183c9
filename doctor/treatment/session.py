"""One run of `flexdoctor fix`: read, plan, show, ask, apply, show what became of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flexdoctor.console import encoding_of, fit_encoding, is_terminal, width, write_report
from flexdoctor.facts import Facts
from flexdoctor.findings import Report, exit_code
from flexdoctor.reports import plan_text
from flexdoctor.reports.document import report_document
from flexdoctor.reports.json import render_json
from flexdoctor.reports.sentences import used_settings
from flexdoctor.text import Language, Text
from flexdoctor.treatment import course, journal
from flexdoctor.treatment.course import Examine, Options, Outcome
from flexdoctor.treatment.plan import Fix, Plan, TreatmentError
from flexdoctor.treatment.planning import Knowledge, make_plan
from flexdoctor.treatment.target import prefix_of, refusal, survey

NO_TERMINAL = Text(
    "nothing was changed: there is no terminal to ask on; --yes applies the plan",
    "未做任何更改：没有可供询问的终端；加 --yes 可直接执行计划",
)
CUT_OFF = Text("the fix {id} was cut off; complete it now?", "修复 {id} 曾被中断；现在继续完成吗？")
REFUSED = Text("nothing was changed", "未做任何更改")


@dataclass(frozen=True)
class Session:
    """What a run of `fix` was told."""

    examine: Examine
    fixes: Sequence[Fix]
    knowledge: Knowledge
    options: Options
    language: Language
    #: Asks a question on the terminal; None where there is none.
    ask: Callable[[str], bool] | None
    as_json: bool = False
    select: tuple[str, ...] = ()
    stack: str | None = None
    #: The file whose settings were used, as a person reads it.
    configuration: str | None = None

    def run(self, *, yes: bool = False, dry_run: bool = False) -> int:
        """Plan and show; apply on a yes. Returns the exit code.

        Raises:
            TreatmentError: the plan cannot be applied here.
        """
        facts, report = self.examine()
        prefix = prefix_of(facts)
        if prefix and not dry_run and (entry := journal.interrupted(prefix)):
            if self.ask is None or self.as_json or not self.ask(CUT_OFF.format(id=entry.id).to(self.language)):
                course.refuse_interrupted(prefix)
            return self.resume()
        plan = make_plan(facts, report, self.fixes, self.knowledge, select=self.select, stack=self.stack)
        only_shown = dry_run or not plan.steps
        target = None if only_shown else survey(facts)
        reason = refusal(target) if target else None
        # With JSON there is one document in all: that of the end.
        if not self.as_json or (only_shown or not (yes or reason)):
            self._show(facts, report, plan)
        if only_shown or target is None:
            return 0 if dry_run else exit_code(report)
        if reason:
            raise TreatmentError(reason)
        if not yes and not self._agreed():
            return 1
        return self._conclude(course.apply(plan, target, report, self.examine, self.options, self._progress), plan)

    def resume(self) -> int:
        """Complete the treatment that was cut off. Returns the exit code.

        Raises:
            TreatmentError: there is none, or it cannot be completed.
        """
        facts, _ = self.examine()
        prefix = prefix_of(facts)
        entry = journal.interrupted(prefix) if prefix else None
        if entry is None:
            raise TreatmentError(Text("no fix was cut off here", "此处没有被中断的修复"), 2)
        outcome = course.resume(entry, survey(facts), self.examine, self.options, self._progress)
        return self._conclude(outcome, entry.plan() if entry.folder.exists() else Plan())

    def _agreed(self) -> bool:
        if self.ask is None or self.as_json:
            self._say(NO_TERMINAL)
            return False
        if self.ask(Text("apply?", "是否执行？").to(self.language)):
            return True
        self._say(REFUSED)
        return False

    def _progress(self, what: Text) -> None:
        self._say(what, "  - ")

    def _say(self, what: Text, indent: str = "flexdoctor: ") -> None:
        sys.stderr.write(fit_encoding(f"{indent}{what.to(self.language)}\n", encoding_of(sys.stderr)))
        sys.stderr.flush()

    def _show(self, facts: Facts, report: Report, plan: Plan, outcome: Outcome | None = None) -> None:
        if self.as_json:
            write_report(render_json(self._document(facts, report, plan, outcome)), None)
            return
        if outcome:
            lines = plan_text.outcome_lines(outcome, self.language)
        else:
            head = [plan_text.head_line(facts, self.language)]
            if self.configuration:
                head.append(plan_text.Line(used_settings(self.configuration).to(self.language)))
            write_report(plan_text.render([*head, plan_text.Line("")]), None)
            lines = plan_text.plan_lines(plan, self.language)
        write_report(plan_text.render(lines, width() if is_terminal(sys.stdout) else None), None)

    def _document(self, facts: Facts, report: Report, plan: Plan, outcome: Outcome | None) -> dict[str, Any]:
        document = report_document(
            report, facts, self.language, plan=plan, fixes=self.fixes, configuration=self.configuration
        )
        document["treatment"] = plan_text.treatment_document(plan, outcome, self.language)
        return document

    def _conclude(self, outcome: Outcome, plan: Plan) -> int:
        self._show(outcome.facts, outcome.before if outcome.rolled_back else outcome.after, plan, outcome)
        return 4 if outcome.rolled_back else exit_code(outcome.after)
