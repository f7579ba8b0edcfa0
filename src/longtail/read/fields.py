"""Which fields of a record hold its text, labels and id, told from what people usually call them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from longtail.read.options import ID_FIELDS, LABELS_FIELD, TEXT_FIELD, ReadOptions

# Names as people write them; letter case, accents, signs and spaces do not count. Those further to the front win.
_TITLES = """
    title; headline; heading; document title; product title; product name; article title; short title; name;
    Titel; Überschrift; Haupttitel; Hauptsachtitel; Bezeichnung; Betreff;
    titre; intitulé; título; titulo; titolo; titel; kop; otsikko; nimeke; rubrik; tittel; tytuł; název; nimi; nom;
    nombre; nome; naam; namn
"""
_SUMMARIES = """
    abstract; summary; description; desc; teaser; subtitle; blurb; product description; short description; lead;
    Beschreibung; Zusammenfassung; Kurzfassung; Kurzbeschreibung; Inhaltsangabe; Referat; Annotation; Abstrakt;
    Klappentext;
    résumé; sommaire; extrait; resumen; descripción; resumo; descrição; riassunto; sommario; descrizione; abstracto;
    samenvatting; omschrijving; beschrijving; tiivistelmä; kuvaus; abstrakti; sammanfattning; beskrivning; sammendrag;
    beskrivelse; resumé; streszczenie; opis; abstrakt; popis
"""
_BODIES = """
    text; texts; full text; body; content; contents; document; article; article text; document text; message; post;
    question; review; comment; sentence; sentences; utterance; query; story; note; notes; transcript;
    Volltext; Inhalt; Dokument; Nachricht; Frage; Meldung; Anfrage; Freitext; Kommentar;
    texte; contenu; corps; texte intégral; texto; texto completo; contenido; cuerpo; conteúdo; corpo; testo; contenuto;
    testo integrale; tekst; inhoud; volledige tekst; teksti; koko teksti; sisältö; innehåll; brödtext; fulltext;
    innhold; treść; obsah
"""
_LABELS = """
    labels; label; subject headings; subject heading; subject terms; subjects; keywords; keyword; descriptors;
    descriptor; index terms; tags; tag; subject; subject uris; topics; topic; categories; category; mesh terms;
    mesh headings; mesh;
    lcsh; concepts; concept; themes; theme; classes; class; genres; genre; codes; code; terms; target; targets;
    Schlagwörter; Schlagwort; Schlagworte; Schlagwoerter; Schlagwortketten; Schlagwortfolgen; Stichwörter; Stichwort;
    Stichworte; Stichwoerter; Deskriptoren; Themen; Thema; Kategorien; Kategorie; Sachgruppen; Sachgruppe; Fachgebiete;
    Rubriken; Etiketten; Klassen; Klasse; GND;
    mots-clés; mot-clé; mots-matière; descripteurs; sujets; sujet; matières; vedettes-matière; catégories; catégorie;
    thèmes; thème; étiquettes; étiquette; rubriques;
    palabras clave; palabra clave; descriptores; materias; materia; temas; tema; etiquetas; etiqueta; categorías;
    categoría;
    parole chiave; soggetti; soggetto; descrittori; argomenti; argomento; etichette; etichetta; categorie; categoria;
    trefwoorden; trefwoord; onderwerpen; onderwerp; categorieën; sleutelwoorden;
    palavras-chave; palavra-chave; assuntos; assunto; descritores; categorias; etiquetas;
    asiasanat; asiasana; avainsanat; avainsana; aiheet; aihe; tunnisteet; luokat; luokka;
    ämnesord; nyckelord; ämnen; ämne; kategorier; etiketter; emneord; nøkkelord; nøgleord; stikkord; emner;
    słowa kluczowe; klíčová slova
"""
_IDS = """
    id; uid; doc id; document id; record id; item id; ident; identifier; nr; no; number; ppn; idn; uuid; key; guid;
    Nummer; lfd Nr; laufende Nummer; Datensatznummer; numéro; número; numero; tunniste
"""

#: An element set or a language that stands around a name, as in dc:title, title_de, title@de, Titel (de).
_PREFIX = re.compile(r"^(?:dc|dct|dcterms|skos|schema|bibo)\s*[:._/-]\s*", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:[ _.@:/-]|\s*[(\[])(?:[a-z]{2}|eng|ger|deu|fre|fra|spa|ita)[)\]]?$", re.IGNORECASE)


@dataclass(frozen=True)
class Fields:
    """What was found among the fields that are there; empty where nothing fits.

    text    joined in this order: a title, a summary, a body
    labels  the one that most likely holds the labels
    ids     fields that may hold a document's id; the first that is filled counts
    """

    text: tuple[str, ...]
    labels: tuple[str, ...]
    ids: tuple[str, ...]


def find_fields(there: Sequence[str], options: ReadOptions) -> Fields:
    """The fields asked for; where none are, `text` and `labels` if they are there, else those with a usual name."""
    names = list(dict.fromkeys(there))
    text = options.text_fields
    labels = options.labels_fields
    if options.labels_field is None and LABELS_FIELD not in names:
        labels = _first(names, _table(_LABELS), taken=text)
    if options.text_field is None and TEXT_FIELD not in names:
        text = tuple(
            name for kind in (_TITLES, _SUMMARIES, _BODIES) for name in _first(names, _table(kind), taken=labels)
        )
    known = [name for name in ID_FIELDS if name in names]
    return Fields(text, labels, tuple(known) or _first(names, _table(_IDS), taken=(*text, *labels)))


def fits(there: Sequence[str], options: ReadOptions) -> bool:
    """Whether these are fields of documents: one with the text, and one with labels where these are needed."""
    found = find_fields(there, options)
    wanted = (*found.text, *(found.labels if options.need_labels else ()))
    return bool(found.text and (found.labels or not options.need_labels)) and set(wanted) <= set(there)


def is_usual(name: str) -> bool:
    """Whether this is a usual name of a field of any kind."""
    return any(_rank(name, _table(kind)) is not None for kind in (_TITLES, _SUMMARIES, _BODIES, _LABELS, _IDS))


def _first(names: Iterable[str], table: dict[str, int], taken: Sequence[str]) -> tuple[str, ...]:
    """The name that comes first in the table, if any does."""
    ranked = [(rank, name) for name in names if name not in taken and (rank := _rank(name, table)) is not None]
    return (min(ranked, key=lambda pair: pair[0])[1],) if ranked else ()


def _rank(name: str, table: dict[str, int]) -> int | None:
    """Place in the table, of the name as it stands or without what stands around it."""
    bare = _PREFIX.sub("", name.strip())
    for spelling in (name, bare, _LANGUAGE.sub("", bare)):
        rank = table.get(_folded(spelling))
        if rank is not None:
            return rank
    return None


@cache
def _table(names: str) -> dict[str, int]:
    """Place of each name; the first of equal ones counts."""
    table: dict[str, int] = {}
    for rank, name in enumerate(names.split(";")):
        table.setdefault(_folded(name), rank)
    return table


def _folded(name: str) -> str:
    """Letters and digits alone, without case and accents."""
    plain = unicodedata.normalize("NFKD", name).casefold().replace("ł", "l").replace("ø", "o")
    return "".join(sign for sign in plain if sign.isalnum())
