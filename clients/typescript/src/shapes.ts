/** Checks JSON values against the part of JSON Schema that the published schemas use. Pure. */

import type { ReportedProblem } from "./errors.js";

/** A JSON object. */
export type JsonObject = Record<string, unknown>;

/** A schema. Keywords that are absent are not checked. `$ref` names another shape of the same table. */
export interface Shape {
  readonly $ref?: string;
  readonly anyOf?: readonly Shape[];
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly items?: Shape;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** Whether a value is a JSON object: neither null nor an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * What is wrong with a value. Removes each member that is null where the shape allows no null: some agents write an
 * absent member so. A shape that forbids further members is one of a request, which is checked as it is.
 */
export function problemsOf(
  value: unknown,
  shape: Shape,
  shapes: Readonly<Record<string, Shape>>,
  pointer = "",
): ReportedProblem[] {
  if (shape.$ref !== undefined) {
    return problemsOf(value, shapes[shape.$ref] ?? {}, shapes, pointer);
  }
  if (shape.anyOf !== undefined) {
    const each = shape.anyOf.map((option) => problemsOf(value, option, shapes, pointer));
    return each.reduce((least, problems) => (problems.length < least.length ? problems : least));
  }
  if (shape.enum !== undefined && !shape.enum.includes(value)) {
    return [{ pointer, message: `must be one of ${shape.enum.join(", ")}`, keyword: "enum" }];
  }
  const types = shape.type === undefined ? [] : [shape.type].flat();
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) {
    return [{ pointer, message: `must be ${types.join(" or ")}`, keyword: "type" }];
  }
  const bound = brokenBound(value, shape);
  if (bound !== undefined) {
    return [{ pointer, ...bound }];
  }
  if (Array.isArray(value) && shape.items !== undefined) {
    const { items } = shape;
    return value.flatMap((item, index) => problemsOf(item, items, shapes, `${pointer}/${index}`));
  }
  return isObject(value) ? problemsOfMembers(value, shape, shapes, pointer) : [];
}

function problemsOfMembers(
  value: JsonObject,
  shape: Shape,
  shapes: Readonly<Record<string, Shape>>,
  pointer: string,
): ReportedProblem[] {
  const problems: ReportedProblem[] = [];
  const isClosed = shape.additionalProperties === false;
  const properties = shape.properties ?? {};
  for (const [name, member] of Object.entries(value)) {
    const expected = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const at = `${pointer}/${name}`;
    if (expected === undefined) {
      if (isClosed) {
        problems.push({ pointer: at, message: "is not known", keyword: "additionalProperties" });
      }
    } else if (member !== undefined) {
      const found = problemsOf(member, expected, shapes, at);
      if (found.length > 0 && member === null && !isClosed) {
        delete value[name];
      } else {
        problems.push(...found);
      }
    }
  }
  for (const name of shape.required ?? []) {
    if (value[name] === undefined) {
      problems.push({ pointer: `${pointer}/${name}`, message: "is required", keyword: "required" });
    }
  }
  return problems;
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function brokenBound(value: unknown, shape: Shape): { message: string; keyword: string } | undefined {
  if (typeof value === "number") {
    if (shape.minimum !== undefined && value < shape.minimum) {
      return { message: `must be at least ${shape.minimum}`, keyword: "minimum" };
    }
    if (shape.maximum !== undefined && value > shape.maximum) {
      return { message: `must be at most ${shape.maximum}`, keyword: "maximum" };
    }
  }
  if (typeof value === "string") {
    if (shape.maxLength !== undefined && [...value].length > shape.maxLength) {
      return { message: `must have at most ${shape.maxLength} characters`, keyword: "maxLength" };
    }
    if (shape.pattern !== undefined && !new RegExp(shape.pattern, "u").test(value)) {
      return { message: `must match ${shape.pattern}`, keyword: "pattern" };
    }
  }
  if (Array.isArray(value) && shape.maxItems !== undefined && value.length > shape.maxItems) {
    return { message: `must have at most ${shape.maxItems} items`, keyword: "maxItems" };
  }
  return undefined;
}

/** The problems in one line. */
export function listed(problems: readonly ReportedProblem[]): string {
  return problems.map(({ pointer, message }) => (pointer ? `${pointer} ${message}` : message)).join("; ");
}
